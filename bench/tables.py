#!/usr/bin/env python3
"""Markdown tables of what bench/peers.py and bench/serve.py wrote.

    bench/tables.py RESULTS...                               to stdout
    bench/tables.py RESULTS... --into docs/performance.md    between its two marks
    bench/tables.py RESULTS... --per-cpu-second              engines, on a machine that is not quiet

The rest of the file is left as it is; a file that is not there gets a skeleton.
"""

import argparse
import collections
import json
import os
import sys

BEGIN = "<!-- measured: written by bench/tables.py, do not edit -->"
END = "<!-- measured: end -->"
SKELETON = f"""# Performance

## Measured

{BEGIN}
{END}

## Tuning notes
"""
LIBRARIES = {"seqd": "seqd", "ct2": "CTranslate2", "ort": "ONNX Runtime", "torch": "PyTorch"}
FORMS = {
    "f32": "float32", "f32-screened": "float32, screened", "plain": "float32, plain folder",
    "bf16": "bfloat16", "bf16-screened": "bfloat16, screened", "int8": "int8",
}
MODES = {"": "", "pool": ", pool", "queue": ", queue", "team": ", queue, team"}
DISTURBED = 0.1
NOTES = {
    "engine": "Tokens per second, medians; in brackets seqd's over the fastest peer of the same "
              "precision in the same run (bfloat16: of the fastest at bfloat16 or float32). "
              "P×T: P parts of the job at the same time, T threads each; of a peer the better "
              "setting counts. `~`: others kept more than a tenth of a core busy. *limit*: what "
              "this machine allowed at that time, if nothing but reading the weights and "
              "multiplying by them took time (bench/limits.py).",
    "serve": "Generated tokens per second; p50 / p95 / p99 of the latency in ms; in brackets "
             "seqd's tokens per second, and its p99, over the best peer's of the same precision. "
             "Peers: a pool with a call a request; a queue that makes batches, one a core or one "
             "on all cores.",
}


def comparable(precision):
    return {precision, "float32"} if precision == "bfloat16" else {precision}


def is_seqd(line):
    return line["contestant"].startswith("seqd")


def title(line):
    library, _, form = line["contestant"].partition("-")
    return f"{LIBRARIES[library]} {FORMS[form]}{MODES[line.get('mode', '')]}"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows] + [""]


def by(lines, *keys):
    """Groups in the order of their first lines."""
    groups = collections.defaultdict(list)
    for line in lines:
        groups[tuple(line[key] for key in keys)].append(line)
    return groups


def ratio(line, lines, key, best=max):
    """Of seqd's value to the best peer's at its precision, or None."""
    precisions = comparable(line["precision"])
    peers = [p[key] for p in lines if not is_seqd(p) and p["precision"] in precisions]
    return line[key] / best(peers) if is_seqd(line) and peers else None


# --- engines ---


def engine_cell(line, lines):
    mark = "~" if line["foreign_cores"] > DISTURBED else ""
    times = ratio(line, lines, "tokens_per_second")
    behind = f" (×{times:.2f})" if times else ""
    return f"{mark}{number(line['tokens_per_second'])}{behind}"


def step_ms(cells):
    """One decoder step of one row: 64 tokens less 16."""
    whole, short = cells.get("B=1"), cells.get("B=1, 16 new")
    return 1000 * (whole["seconds"] - short["seconds"]) / 48 if whole and short else None


def limit_rows(limits, lines, cases):
    """What the machine allows, in brackets over the fastest peer at that precision."""
    rows = []
    for (precision, screened), own in by(limits, "precision", "screened").items():
        if not any(line["precision"] == precision for line in lines):
            continue
        cells = {}
        for line in own:
            peers = [p["tokens_per_second"] for p in lines if p["case"] == line["case"]
                     and not is_seqd(p) and p["precision"] in comparable(precision)]
            times = f" (×{line['tokens_per_second'] / max(peers):.2f})" if peers else ""
            cells[line["case"]] = number(line["tokens_per_second"]) + times
        name = f"*limit, {precision}{', screened' * screened}*"
        rows.append([name, "", *(cells.get(case, "") for case in cases), "", "", ""])
    return rows


def engine_table(lines, limits):
    cases = [case for (case,) in by(lines, "case") if case != "B=1, 16 new"]
    cells = {case: by(lines, "case")[case,] for case in cases}
    rows, steps = [], []
    for (_, setting), own in by(lines, "contestant", "setting").items():
        mine = {line["case"]: line for line in own}
        step = step_ms(mine)
        steps.append(step)
        row = [title(own[0]), setting.replace("x", "×")]
        row += [engine_cell(mine[c], cells[c]) if c in mine else "" for c in cases]
        row += [number(step) if step and step > 0 else "", number(1000 * own[0]["ready_seconds"]),
                number(max(line["anonymous_mb"] for line in own))]
        rows.append(row)
    rows += limit_rows(limits, lines, cases)
    head = ["", "P×T", *cases, "ms a step, B=1", "ready, ms", "anonymous memory, MB"]
    if not any(steps):
        at = head.index("ms a step, B=1")
        head, rows = head[:at] + head[at + 1 :], [row[:at] + row[at + 1 :] for row in rows]
    return table(head, rows)


def agreement(lines):
    compared = [line for line in lines if line["precision"] == "float32" and
                line["workload"] != "beams" and "tokens_equal" in line]
    if not compared:
        return []
    worst = min(compared, key=lambda line: line["tokens_equal"])
    if worst["tokens_equal"] == 1:
        return ["All greedy tokens at float32 are equal.", ""]
    return [f"Of the greedy tokens at float32 at least {100 * worst['tokens_equal']:.1f} % are "
            f"equal to {title({'contestant': worst['agrees_with']})}'s ({title(worst)}, "
            f"{worst['case']}).", ""]


def engines(lines, limits):
    text = []
    for (model, threads), own in by(lines, "model", "threads").items():
        allowed = by(limits, "model", "threads")[model, threads]
        generating = [line for line in own if line["workload"] != "encode"]
        encoding = [line for line in own if line["workload"] == "encode"]
        plural = "thread" if threads == 1 else "threads"
        if generating:
            text += [f"**{model}, {threads} {plural}**: source 32, 64 new tokens", ""]
            text += engine_table(generating, allowed) + agreement(generating)
        if encoding:
            text += [f"**{model}, {threads} {plural}, encoder alone**: rows × tokens", ""]
            text += engine_table(encoding, allowed)
    return text


# --- servers ---


def client_cell(line, lines):
    mark = "~" if line["foreign_cores"] > DISTURBED else ""
    times, tail = ratio(line, lines, "tokens_per_second"), ratio(line, lines, "p99_ms", min)
    text = f"{mark}{number(line['tokens_per_second'])}" + (f" (×{times:.2f})" if times else "")
    text += "; " + " / ".join(number(line[f"p{n}_ms"]) for n in (50, 95, 99))
    return text + (f" (×{tail:.2f})" if tail else "")


def client_table(lines):
    counts = sorted(count for (count,) in by(lines, "clients"))
    rows = []
    for own in by(lines, "contestant", "mode").values():
        mine = {line["clients"]: line for line in own}
        rows.append([title(own[0])] + [
            client_cell(mine[n], by(lines, "clients")[n,]) if n in mine else "" for n in counts]
            + [number(max(line["anonymous_mb"] for line in own))])
    heads = [f"{n} client" + "s" * (n > 1) for n in counts]
    return table(["", *heads, "anonymous memory, MB"], rows)


def overload_table(lines):
    loads = list(lines[0]["loads"])
    rows = [[title(line), number(line["deadline_ms"]), number(line["capacity_per_second"])]
            + [number(line["loads"][load]["goodput_per_second"]) for load in loads]
            + [f"{100 * line['share']:.0f} %"] for line in lines]
    return table(["", "deadline, ms", "capacity", *(f"load ×{float(load):g}" for load in loads),
                  f"×{float(loads[-1]):g} of the peak"], rows)


def beside_table(lines):
    rows = [[title(line)] + [number(line[f"{case}_{p}_ms"]) for case in ("alone", "beside")
                             for p in ("p50", "p99")] + [f"×{line['ratio_p99']:.2f}"]
            for line in lines]
    return table(["", "p50 alone, ms", "p99 alone", "p50 beside", "p99 beside", "p99"], rows)


def servers(lines):
    captions = {
        "clients": (client_table, "closed loop, sources of 5 to 80 tokens, 32 new tokens"),
        "overload": (overload_table, "requests per second answered within the deadline"),
        "beside": (beside_table, "a short request beside one client that asks for long rows"),
    }
    text = []
    for (model, test), own in by(lines, "model", "test").items():
        make, caption = captions[test]
        text += [f"**{model}, over HTTP**: {caption}", ""] + make(own)
    return text


# --- runs ---


def read(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    if not lines or lines[0].get("record") != "run":
        sys.exit(f"{path} is not what peers.py or serve.py write")
    return lines[0], lines[1:]


def machine_words(machine):
    return (f"{machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB; "
            f"{' '.join(machine['flags'])}; {machine['system']}")


def run_words(run, lines):
    kernels = sorted({line["kernels"] for line in lines if line.get("kernels")})
    versions = [value if name == "seqd" else f"{name} {value}"
                for name, value in run["versions"].items()]
    kernels = f" Kernels of seqd: {', '.join(kernels)}." if kernels else ""
    return [f"`{run['command']}`, {run['date']}. {', '.join(versions)}.{kernels}", ""]


def missing(lines):
    names = {" ".join(filter(None, (line["contestant"], line.get("mode") or line.get("setting"))))
             for line in lines if line["record"] == "missing"}
    return [f"Did not run: {', '.join(sorted(names))}.", ""] if names else []


def per_cpu_second(line):
    return line | {"tokens_per_second": line["tokens_per_cpu_second"],
                   "seconds": line["cpu_seconds"], "foreign_cores": 0.0}


def section(paths, cpu=False):
    text, machine = [], None
    for run, lines in map(read, paths):
        if machine_words(run["machine"]) != machine:
            machine = machine_words(run["machine"])
            text += [f"### {machine}", ""]
        text += run_words(run, lines)
        limits = [line for line in lines if line["record"] == "limit"]
        for record, make in (("engine", lambda own: engines(own, limits)), ("serve", servers)):
            own = [line for line in lines if line["record"] == record]
            if cpu and record == "engine":
                own = list(map(per_cpu_second, own))
            if own:
                note = NOTES[record].replace("second,", "CPU second,") if cpu else NOTES[record]
                text += [note, ""] + make(own)
        text += missing(lines)
    return "\n".join(text)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+")
    parser.add_argument("--into", metavar="FILE")
    parser.add_argument("--per-cpu-second", action="store_true")
    asked = parser.parse_args()
    text = section(asked.results, asked.per_cpu_second)
    if not asked.into:
        print(text, end="")
        return
    page = SKELETON
    if os.path.exists(asked.into):
        with open(asked.into, encoding="utf-8") as file:
            page = file.read()
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        sys.exit(f"{asked.into} lacks the line {BEGIN} or {END}")
    with open(asked.into, "w", encoding="utf-8") as file:
        file.write(f"{head}{BEGIN}\n\n{text}{END}{tail}")


if __name__ == "__main__":
    main()
