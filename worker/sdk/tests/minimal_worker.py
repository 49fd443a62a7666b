"""A host worker in Python, written from worker/README.md alone. It handles four tools for readme.rs:

    python minimal_worker.py NATS_URL

It prints "ready" once it takes calls, and drains on SIGTERM.
"""

import asyncio
import contextlib
import hashlib
import json
import signal
import sys
from pathlib import Path

import nats
from nats.errors import Error as NatsError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import NotFoundError

INLINE = 256 << 10
LARGEST = 16 << 20
ROOM = 8


class Failed(Exception):
    def __init__(self, message, code="tool_failed", details=None):
        super().__init__(message)
        self.body = {"code": code, "message": message}
        if details is not None:
            self.body["details"] = details


async def echo(call, arguments):
    return arguments


async def describe(call, arguments):
    return {**call, "arguments": arguments}


async def refuse(call, arguments):
    raise Failed("there is no order o-9", "order_not_found", {"order_id": "o-9"})


async def endless(call, arguments):
    if "begun" in arguments:
        Path(arguments["begun"]).touch()
    await asyncio.Event().wait()


TOOLS = {"echo": echo, "describe it.": describe, "refuse": refuse, "endless": endless}


def token(name):
    stays = lambda byte: byte < 128 and (chr(byte).isalnum() or byte in b"_-")
    return "".join(chr(byte) if stays(byte) else f"={byte:02X}" for byte in name.encode())


class Worker:
    def __init__(self, connection):
        self.nats = connection
        self.js = connection.jetstream()
        self.room = asyncio.Semaphore(ROOM)
        self.stopping = asyncio.Event()
        self.giving_back = False
        self.running = {}

    async def queue(self, name):
        """The tool's consumer, made only where there is none; and how long a worker may be silent."""
        durable = f"tool-{token(name)}"
        try:
            info = await self.js.consumer_info("REWIND_HOST", durable)
        except NotFoundError:
            config = ConsumerConfig(
                durable_name=durable,
                description="Rewind: workers of one host tool",
                filter_subject=f"rewind.host.{token(name)}.>",
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=15,
                mem_storage=True,
                max_ack_pending=50_000,
            )
            info = await self.js.add_consumer("REWIND_HOST", config)
        return await self.js.pull_subscribe_bind(durable, "REWIND_HOST"), info.config.ack_wait

    async def pull(self, tool, queue, silence):
        while not self.stopping.is_set():
            # Room first: what was asked for has to be begun at once.
            await self.room.acquire()
            try:
                [message] = await queue.fetch(1, timeout=1)
            except asyncio.TimeoutError:
                self.room.release()
                continue
            except NatsError:
                self.room.release()
                # The consumer may be gone, with a server that restarted; or the server is still away.
                await asyncio.sleep(0.2)
                with contextlib.suppress(NatsError, asyncio.TimeoutError):
                    queue, silence = await self.queue(tool)
                continue
            if self.stopping.is_set():
                await message.nak()
                continue
            task = asyncio.create_task(self.handle(tool, message, silence))
            self.running[message.headers["Rewind-Key"]] = task
            task.add_done_callback(self.ended)

    def ended(self, task):
        self.room.release()
        self.running = {key: running for key, running in self.running.items() if running is not task}

    async def handle(self, tool, message, silence):
        beats = asyncio.create_task(self.keep(message, silence / 3))
        try:
            outcome = await self.outcome(tool, message)
            await self.answer(message, outcome)
            await message.ack()
        except asyncio.CancelledError:
            # Stopping; or abandoned, and then it is out of the queue already.
            await (message.nak() if self.giving_back else message.ack())
        finally:
            beats.cancel()

    async def keep(self, message, beat):
        while True:
            await asyncio.sleep(beat)
            await message.in_progress()

    async def outcome(self, tool, message):
        headers = message.headers
        try:
            text = await self.blob(headers["Rewind-Blob"]) if "Rewind-Blob" in headers else message.data
            call = {
                "key": headers["Rewind-Key"],
                "attempt": int(headers["Rewind-Attempt"]) + message.metadata.num_delivered - 1,
                "namespace": headers.get("Rewind-Namespace"),
                "traceparent": headers["traceparent"],
            }
            timeout = int(headers["Rewind-Timeout-Ms"]) / 1000
            result = await asyncio.wait_for(TOOLS[tool](call, json.loads(text)), timeout)
            text = json.dumps(result, ensure_ascii=False).encode()
        except asyncio.TimeoutError:
            return {"error": {"code": "timeout", "message": f"{tool} took too long"}}
        except Failed as failed:
            return {"error": failed.body}
        except Exception as error:
            print(f"{tool} failed: {error!r}", file=sys.stderr)
            return {"error": {"message": f"{tool} failed; the worker's log says more"}}
        if len(text) > LARGEST:
            return {"error": {"code": "too_large", "message": f"the result has {len(text)} bytes"}}
        if len(text) > INLINE:
            return {"blob": {"sha256": await self.store(text), "bytes": len(text)}}
        return {"ok": result}

    async def blob(self, digest):
        store = await self.js.object_store("REWIND_BLOBS")
        return (await store.get(digest)).data

    async def store(self, text):
        digest = hashlib.sha256(text).hexdigest()
        store = await self.js.object_store("REWIND_BLOBS")
        await store.put(digest, text)
        return digest

    async def answer(self, message, outcome):
        seq = int(message.headers["Rewind-Key"].split("/")[1])
        body = {"v": 1, "seq": seq, "attempt": int(message.headers["Rewind-Attempt"]), **outcome}
        while True:
            try:
                reply = message.headers["Rewind-Reply"]
                return await self.js.publish(reply, json.dumps(body).encode(), headers={"Rewind-Command": "answer"})
            except (NatsError, asyncio.TimeoutError) as error:
                print(f"no acknowledgement of an answer yet: {error!r}", file=sys.stderr)
                await asyncio.sleep(0.1)

    async def abandoned(self, message):
        run, seq = message.subject.split(".")[2:4]
        if task := self.running.get(f"{run}/{seq}"):
            task.cancel()

    async def run(self):
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self.stopping.set)
        await self.nats.subscribe("rewind.abandoned.>", cb=self.abandoned)
        pulls = [asyncio.create_task(self.pull(name, *await self.queue(name))) for name in TOOLS]
        await self.nats.flush()
        print("ready", flush=True)
        await asyncio.gather(*pulls)
        if self.running:
            _, unfinished = await asyncio.wait(self.running.values(), timeout=25)
            self.giving_back = True
            for task in unfinished:
                task.cancel()
            if unfinished:
                await asyncio.wait(unfinished)
        await self.nats.flush()
        await self.nats.close()


async def main():
    connection = await nats.connect(sys.argv[1], name="minimal_worker", max_reconnect_attempts=-1)
    await Worker(connection).run()


asyncio.run(main())
