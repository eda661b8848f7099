"""Load for a server on this machine: kept HTTP/1.1 connections, made of one event loop.

A request is prepared bytes and an answer is looked at afterwards, so that the generator takes
little of the cores that the server needs."""

import asyncio
import collections
import json
import random
import time


def post(path, body):
    data = json.dumps(body).encode()
    head = (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\n\r\n")
    return head.encode() + data


class Connection(asyncio.Protocol):
    """One request at a time; ask() gives (status, body), or status 0 if the server hung up."""

    def __init__(self):
        self.received, self.length, self.waiting, self.transport = b"", None, None, None

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data
        if self.length is None:
            head, found, _ = self.received.partition(b"\r\n\r\n")
            if not found:
                return
            fields = dict(line.split(b":", 1) for line in head.lower().split(b"\r\n")[1:])
            self.begin = len(head) + 4
            self.length = self.begin + int(fields[b"content-length"])
        if len(self.received) >= self.length:
            self.answer((int(self.received[9:12]), self.received[self.begin:]))

    def connection_lost(self, _):
        self.transport = None
        self.answer((0, b""))

    def answer(self, reply):
        self.received, self.length = b"", None
        if self.waiting and not self.waiting.done():
            self.waiting.set_result(reply)

    async def ask(self, request):
        if not self.transport or self.transport.is_closing():
            return 0, b""
        self.waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.waiting

    def close(self):
        if self.transport:
            self.transport.abort()


async def connect(port):
    loop = asyncio.get_running_loop()
    return (await loop.create_connection(Connection, "127.0.0.1", port))[1]


class Answers:
    """What came back: seconds of each answer in time, and how many of each status.  99 stands for
    one that did not come before its deadline."""

    def __init__(self):
        self.latencies, self.statuses, self.last = [], collections.Counter(), b""
        self.seconds = 0.0


async def closed_loop(port, requests, clients, seconds, rounds, limit):
    """Each client asks again as soon as it is answered.  The clock starts when every client has
    been answered once, and stops after `seconds` if then each was answered `rounds` times on
    average, or after `limit`."""
    answers, warm, begun = Answers(), 0, None
    start = time.monotonic()

    def ended(now):
        if not begun:
            return False
        enough = now - begun > seconds and len(answers.latencies) >= rounds * clients
        return enough or now - begun > limit

    async def client(number):
        nonlocal warm, begun
        connection, turn = await connect(port), number
        while True:
            before = time.monotonic()
            status, body = await connection.ask(requests[turn % len(requests)])
            now = time.monotonic()
            if turn == number:
                warm += 1
                if not begun and (warm == clients or now - start > limit):
                    begun = now
            elif begun:
                answers.statuses[status] += 1
                if status == 200:
                    answers.latencies.append(now - before)
                    answers.last = body
            if ended(now):
                break
            if status != 200:
                await asyncio.sleep(0.05)
            if status == 0:
                connection = await connect(port)
            turn += clients
        answers.seconds = answers.seconds or now - begun
        connection.close()

    tasks = [asyncio.create_task(client(i)) for i in range(clients)]
    done, waiting = await asyncio.wait(
        tasks, timeout=4 * limit, return_when=asyncio.FIRST_COMPLETED)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    for task in done:
        task.result()
    if not done:
        raise RuntimeError("the server answers nothing")
    return answers


async def open_loop(port, requests, rate, deadline, seconds):
    """Requests arrive at random, `rate` in a second, whether or not the server keeps up; who is
    not answered in `deadline` seconds hangs up.  Counted are those that arrive after the first two
    deadlines, during `seconds`."""
    answers, idle, tasks = Answers(), [], set()
    draw, start = random.Random(7), time.monotonic()
    warm = 2 * deadline
    answers.seconds = seconds

    async def visit(request, counted):
        before, connection = time.monotonic(), None
        try:
            async with asyncio.timeout(deadline):
                connection = idle.pop() if idle else await connect(port)
                status, body = await connection.ask(request)
        except TimeoutError:
            status, body = 99, b""
        except OSError:
            status, body = 0, b""
        if connection and status not in (0, 99):
            idle.append(connection)
        elif connection:
            connection.close()
        if counted:
            answers.statuses[status] += 1
            if status == 200:
                answers.latencies.append(time.monotonic() - before)
                answers.last = body

    arrival, number = 0.0, 0
    while arrival < warm + seconds:
        await asyncio.sleep(max(0.0, start + arrival - time.monotonic()))
        task = asyncio.create_task(visit(requests[number % len(requests)], arrival >= warm))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        arrival += draw.expovariate(rate)
        number += 1
    # How far the generator itself was behind its timetable.
    answers.late = max(0.0, time.monotonic() - start - warm - seconds)
    await asyncio.gather(*tasks)
    for connection in idle:
        connection.close()
    return answers


async def one_by_one(port, requests, seconds, count, background=None):
    """Asks `count` times, one after the other, for at most `seconds`.  `background` is asked again
    and again at the same time."""
    answers = Answers()

    async def press():
        connection = await connect(port)
        while True:
            status, _ = await connection.ask(background)
            answers.statuses[f"background {status}"] += 1

    pressing = asyncio.create_task(press()) if background else None
    connection = await connect(port)
    await asyncio.sleep(0.2 if background else 0)
    start = time.monotonic()
    while len(answers.latencies) < count and time.monotonic() - start < seconds:
        before = time.monotonic()
        status, body = await connection.ask(requests[len(answers.latencies) % len(requests)])
        answers.statuses[status] += 1
        if status != 200:
            break
        answers.latencies.append(time.monotonic() - before)
        answers.last = body
    answers.seconds = time.monotonic() - start
    connection.close()
    if pressing:
        pressing.cancel()
        await asyncio.gather(pressing, return_exceptions=True)
    return answers
