"""A rank asks an engine through an asyncio client; somebody has stopped the engine with a signal."""

import asyncio
import os
import signal

from parts import ADDRESS, Run, address, beside, publish_port, train_step

EXPECTED = {
    "code": ("io_wait", "python_wait"),
    "ranks": "culprit",
    "where": ("answer", "main", "ask"),
    "beside": "engine",
    "names": "engine",
}


async def answer(reader, writer):
    while question := await reader.readline():
        if question == b"stop\n":
            os.kill(os.getpid(), signal.SIGSTOP)  # HERE
        writer.write(question)
        await writer.drain()


async def serve():
    server = await asyncio.start_server(answer, ADDRESS, 0)
    publish_port("engine", server.sockets[0].getsockname()[1])
    await server.serve_forever()


async def ask(question):
    reader, writer = await asyncio.open_connection(*address("engine"))
    writer.write(question + b"\n")
    line = await reader.readline()  # HERE
    writer.close()
    return line


def main():
    run = Run()
    model, optimizer = run.model()
    for step, batch in enumerate(run.loader()):
        trouble = run.trouble(step)
        if run.is_culprit:
            asyncio.run(ask(b"stop" if trouble else b"sample"))  # HERE
        train_step(model, optimizer, batch)


if __name__ == "__main__":
    asyncio.run(serve()) if beside() == "engine" else main()
