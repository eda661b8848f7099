"""What the benchmark scripts share: models' folders, sources, the machine, quiet, JSON lines."""

import contextlib
import datetime
import importlib.metadata
import json
import os
import platform
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(HERE)
PRECISIONS = {"f32": "float32", "plain": "float32", "bf16": "bfloat16", "int8": "int8",
              "f32-screened": "float32", "bf16-screened": "bfloat16"}
CPU_FLAGS = (
    "avx2 fma f16c avx_vnni avx512f avx512bw avx512_vnni avx512_bf16 amx_bf16 amx_int8 "
    "asimd asimddp i8mm bf16 sve"
).split()
PACKAGES = "ctranslate2 onnxruntime torch transformers numpy fastapi uvicorn uvloop".split()


class Model:
    """A folder of bench/models.py: hf/, tokens.json and the forms that peers want."""

    def __init__(self, folder):
        self.folder, self.name = folder, os.path.basename(os.path.normpath(folder))
        with open(self.path("hf", "config.json"), encoding="utf-8") as file:
            self.config = json.load(file)
        self.generates = self.config.get("is_encoder_decoder", False)
        self.vocabulary = self.config["vocab_size"]
        self.eos = self.config.get("eos_token_id") if self.generates else None
        self.pad = self.config["pad_token_id"]
        self.start = self.config.get("decoder_start_token_id")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def tokens(self):
        with open(self.path("tokens.json"), encoding="utf-8") as file:
            return json.load(file)

    def rows(self, count, shortest, longest=None, seed=1):
        """Sources of random ids, each `shortest` to `longest` tokens long; the last is the end."""
        draw = random.Random(f"{seed} {count} {shortest} {longest}")
        end = [self.eos] if self.generates else []
        return [
            [draw.randrange(10, self.vocabulary - 1)
             for _ in range(draw.randint(shortest, longest or shortest) - len(end))] + end
            for _ in range(count)
        ]


def models(folder, wanted):
    missing = [n for n in wanted if not os.path.exists(os.path.join(folder, n, "hf/config.json"))]
    if missing:
        sys.exit(f"{folder} has no {', '.join(missing)}: bench/models.py {folder}")
    return [Model(os.path.join(folder, name)) for name in wanted]


def clean_environment():
    """Without settings that would reach a contestant from outside; SEQD_ISA is meant."""
    ours = ("SEQD_", "OPENBLAS_", "OMP_", "CT2_", "MKL_")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(ours) or k == "SEQD_ISA"}
    return kept | {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}


def add_arguments(parser):
    """The options that both benchmarks have."""
    parser.add_argument("--seqd", help="the program; without it only peers run")
    parser.add_argument("--seqd-options", type=shlex.split, default=[], metavar="WORDS",
                        help="more of its options, as one word")
    parser.add_argument("--models", required=True, help="the folder of bench/models.py")
    parser.add_argument("--out", required=True, help="a file of JSON lines")
    parser.add_argument("--quiet", type=float, default=5.0, metavar="SECONDS",
                        help="how long to wait for a quiet machine before each repetition")


def parsed(parser):
    asked = parser.parse_args()
    if asked.seqd:
        asked.seqd = os.path.abspath(asked.seqd)
    else:
        asked.contestants = [n for n in asked.contestants if not n.startswith("seqd")]
    return asked


def seqd_version(seqd):
    found = subprocess.run([seqd, "--version"], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def seqd_folder(seqd, model, form):
    """The folder that seqd-FORM serves, packed by `seqd quantize` unless this program has
    packed it already."""
    if form == "plain":
        return model.path("hf")
    form = form.removesuffix("-screened")
    folder, stamp = model.path(f"seqd-{form}"), model.path(f"seqd-{form}.packed-by")
    maker = f"{seqd_version(seqd)} {os.stat(seqd).st_mtime_ns}"
    with contextlib.suppress(OSError), open(stamp, encoding="utf-8") as file:
        if file.read() == maker:
            return folder
    shutil.rmtree(folder, ignore_errors=True)
    command = [seqd, "quantize", model.path("hf"), folder, "--dtype", PRECISIONS[form]]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment())
    if done.returncode:
        raise RuntimeError(f"seqd quantize: {(done.stderr or done.stdout).strip()[-300:]}")
    with open(stamp, "w", encoding="utf-8") as file:
        file.write(maker)
    return folder


# --- the machine ---


def cpu_info():
    fields = {}
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file.read().split("\n\n")[0].splitlines():
            name, _, value = line.partition(":")
            fields[name.strip()] = value.strip()
    return fields


def machine():
    cpu, memory = cpu_info(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    name = cpu.get("model name", platform.machine())
    if "cpu family" in cpu:
        name += f" (family {cpu['cpu family']}, model {cpu['model']})"
    flags = set(cpu.get("flags", cpu.get("Features", "")).split())
    system = "Linux"
    with contextlib.suppress(OSError):
        system = platform.freedesktop_os_release()["PRETTY_NAME"]
    return {
        "cpu": name,
        "cores": len(os.sched_getaffinity(0)),
        "flags": [flag for flag in CPU_FLAGS if flag in flags],
        "memory_gib": round(memory / 2**30),
        "system": f"{system}, kernel {platform.release()}",
    }


def versions(seqd):
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    if seqd:
        found["seqd"] = seqd_version(seqd)
    return found


def command_line():
    """As it was typed, without the paths of this machine."""
    words = [f"SEQD_ISA={isa}"] if (isa := os.environ.get("SEQD_ISA")) else []
    for word in sys.argv:
        option, equals, value = word.rpartition("=")
        if os.path.isabs(value) or os.path.exists(value) or ".." in value:
            inside = os.path.relpath(value, REPOSITORY)
            value = os.path.basename(value) if inside.startswith("..") else inside
        words.append(option + equals + value)
    return shlex.join(words)


# --- load that is not ours ---


def busy_seconds():
    """CPU time that the whole machine has spent, in seconds; ticks are 10 ms."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _, _, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    """CPU time of a process and all its threads (Linux's clock of another process)."""
    return time.clock_gettime(~pid << 3 | 2)


def wait_for_quiet(seconds):
    """Waits until the machine is idle for 0.1 s, at most so long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = busy_seconds()
        time.sleep(0.1)
        if busy_seconds() - before <= 0.02:
            return


class Foreign:
    """Inside of `with`: how many cores others kept busy, in `load` afterwards."""

    def __init__(self, *pids):
        self.pids, self.load, self.own = pids, 0.0, 0.0

    def __enter__(self):
        self.start, self.busy, self.before = time.monotonic(), busy_seconds(), self.ours()
        return self

    def ours(self):
        return sum(map(cpu_seconds, self.pids)) + time.process_time()

    def __exit__(self, *_):
        self.own = self.ours() - self.before
        self.seconds = time.monotonic() - self.start
        self.load = max(0.0, busy_seconds() - self.busy - self.own) / self.seconds


def memory_mb(pid):
    """Resident and anonymous memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return {name: round(int(fields[key].split()[0]) / 1024, 1)
            for name, key in (("rss_mb", "VmRSS"), ("anonymous_mb", "RssAnon"))}


# --- results ---


class Results:
    """JSON lines, and a line for the eye of each.  The first tells what ran where."""

    def __init__(self, path, seqd):
        os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
        self.file = open(path, "w", encoding="utf-8")
        self.write({
            "record": "run",
            "command": command_line(),
            "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
            "machine": machine(),
            "versions": versions(seqd),
        })

    def write(self, line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()


def say(*words):
    print(*words, file=sys.stderr, flush=True)


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def median(values):
    return statistics.median(values)


def names(text):
    return [word for word in text.split(",") if word]
