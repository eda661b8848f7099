#!/usr/bin/env python3
"""A peer behind FastAPI and uvicorn, the way most people serve it.

    bench/serve_peers.py NAME MODEL_DIR --mode pool|queue|team --port P --cores N

pool   a call a request, as many at once as cores, one thread each
queue  rows wait 2 ms for others, at most 32 go together; as many batches at once as cores, one
       thread each
team   the same queue, one batch at a time on all cores
"""

import argparse
import asyncio
import concurrent.futures
import contextlib

import fastapi
import pydantic
import uvicorn

from common import Model
from engines import PEERS

WINDOW_SECONDS = 0.002
BATCH_ROWS = 32


class Request(pydantic.BaseModel):
    input_ids: list[list[int]]
    max_new_tokens: int = 32


class Answer(pydantic.BaseModel):
    outputs: list[list[int]]


class Pool:
    def __init__(self, peer, calls):
        self.peer, self.threads = peer, concurrent.futures.ThreadPoolExecutor(calls)

    def call(self, rows, new):
        return self.peer.tokens(self.peer.generate(self.peer.prepare(rows), new, 1))

    async def run(self, rows, new):
        return await asyncio.get_running_loop().run_in_executor(self.threads, self.call, rows, new)

    async def work(self):
        """Nothing to do between requests."""


class Queue(Pool):
    """Micro-batches of rows that want equally many tokens."""

    def __init__(self, peer, calls):
        super().__init__(peer, calls)
        self.waiting, self.free = asyncio.Queue(), asyncio.Semaphore(calls)

    async def run(self, rows, new):
        items = [(row, new, asyncio.get_running_loop().create_future()) for row in rows]
        for item in items:
            self.waiting.put_nowait(item)
        return [await future for _, _, future in items]

    async def work(self):
        batches, left = set(), []
        while True:
            items = left or [await self.waiting.get()]
            await asyncio.sleep(WINDOW_SECONDS)
            await self.free.acquire()
            while len(items) < BATCH_ROWS and not self.waiting.empty():
                items.append(self.waiting.get_nowait())
            left = [item for item in items if item[1] != items[0][1]]
            items = [item for item in items if item[1] == items[0][1]]
            batches.add(batch := asyncio.create_task(self.batch(items)))
            batch.add_done_callback(batches.discard)

    async def batch(self, items):
        items = [item for item in items if not item[2].cancelled()]
        try:
            rows = await super().run([row for row, _, _ in items], items[0][1]) if items else []
            for (_, _, future), tokens in zip(items, rows):
                if not future.done():
                    future.set_result(tokens)
        except Exception as error:
            for _, _, future in items:
                if not future.done():
                    future.set_exception(error)
        finally:
            self.free.release()


def application(make):
    @contextlib.asynccontextmanager
    async def lifespan(app):
        app.state.calls = make()
        task = asyncio.create_task(app.state.calls.work())
        yield
        task.cancel()

    app = fastapi.FastAPI(lifespan=lifespan)

    @app.get("/readyz")
    async def ready():
        return {}

    @app.post("/generate")
    async def generate(request: Request) -> Answer:
        outputs = await app.state.calls.run(request.input_ids, request.max_new_tokens)
        return Answer(outputs=outputs)

    return app


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("model")
    parser.add_argument("--mode", choices=["pool", "queue", "team"], required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--cores", type=int, required=True)
    asked = parser.parse_args()
    library, _, form = asked.name.partition("-")
    calls, threads = (1, asked.cores) if asked.mode == "team" else (asked.cores, 1)
    peer = PEERS[library](Model(asked.model), form, calls, threads)
    kind = Pool if asked.mode == "pool" else Queue
    uvicorn.run(application(lambda: kind(peer, calls)), host="127.0.0.1", port=asked.port,
                log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
