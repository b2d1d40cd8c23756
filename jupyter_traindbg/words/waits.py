"""What a thread does at one moment, and what it waits for, in Chinese; the English words for waits, those of JSON, are in
`jupyter_traindbg.model.waits`.
"""

from __future__ import annotations

from ..language import text
from ..model import Maybe, NotAvailable, ThreadState, Wait
from ..model.waits import Templates

__all__ = ["at_moment", "in_chinese"]


def in_chinese(wait: Wait) -> str:
    """What follows 等待, as ``str(wait)`` is what follows "waits for"."""
    return wait.told_by(CHINESE)


def at_moment(state: Maybe[ThreadState], wait: Wait | None) -> str:
    """In the reader's language: ``computing``, ``waiting for data from a socket``, ``stopped by a signal``; empty where it is not known."""
    if wait is not None:
        return _waiting(wait)
    if isinstance(state, NotAvailable):
        return ""
    return {"running": text("computing", "正在计算"), "waiting": text("waiting", "正在等待")}.get(state, state)


def _waiting(wait: Wait) -> str:
    if wait.kind == "sleep":
        return text("sleeping", "正在休眠")
    if wait.kind == "idle":
        return text(str(wait), f"空闲，等待{in_chinese(wait)}")
    return text(f"waiting for {wait}", f"正在等待{in_chinese(wait)}")


CHINESE: Templates = {
    ("backward", ""): "反向传播（autograd 的线程；在 DDP 下还有其 all_reduce）",
    ("child", ""): "子进程结束",
    ("child", "program"): "子程序结束",
    ("child", "spawned"): "其创建的进程",
    ("collective", ""): "集合通信 {op}",
    ("collective", "ddp_shapes"): "其他 rank 创建 DDP",
    ("collective", "ddp_parameters"): "参数广播到所有 rank",
    ("collective", "ddp_buffers"): "DDP 的 buffer 广播",
    ("coroutine", ""): "{on}",
    ("device", ""): ("设备 {on}", "设备"),
    ("file", ""): ("文件 {on}", "文件"),
    ("file", "list"): ("列出目录 {on}", "列出目录"),
    ("file", "look_up"): ("查找文件 {on}", "查找文件"),
    ("file", "open"): ("打开文件 {on}", "打开文件"),
    ("file", "read"): ("文件 {on} 的数据", "文件、管道或套接字的数据"),
    ("file", "sync"): ("磁盘（fsync {on}）", "磁盘（fsync）"),
    ("file", "write"): ("文件 {on} 接收数据", "文件、管道或套接字接收数据"),
    ("future", ""): " future 的结果",
    ("gil", ""): (" GIL（由 {on} 持有）", " GIL"),
    ("gpu", ""): " GPU",
    ("gpu", "synchronize"): " GPU（CUDA 同步）",
    ("idle", ""): "工作",
    ("idle", "batches"): "要固定到内存的 batch",
    ("idle", "connections"): "连接",
    ("idle", "events"): "其事件循环中的事件",
    ("idle", "indices"): "索引",
    ("idle", "ranks"): "其 rank 结束",
    ("idle", "sending"): "要发送的数据",
    ("idle", "work"): "工作",
    ("init", ""): "其他 rank 加入（{op}）",
    ("loader", ""): " DataLoader 的下一个 batch",
    ("loader_end", ""): " DataLoader worker 结束",
    ("lock", ""): "锁",
    ("lock", "file"): ("文件 {on} 的锁", "文件锁"),
    ("lock", "lock_file"): "锁文件",
    ("lock", "shared"): "进程间共享的锁",
    ("native", ""): "锁或其他线程（在 C 代码中）",
    ("network", ""): "套接字",
    ("network", "connect"): "建立连接",
    ("network", "poll"): "套接字或管道",
    ("network", "read"): "套接字的数据",
    ("network", "write"): "套接字接收数据",
    ("none", ""): "",
    ("peer", ""): "点对点通信的对端（{op}）",
    ("pipe", ""): "管道",
    ("pipe", "read"): "管道的数据",
    ("pipe", "write"): "管道接收数据",
    ("process", ""): "另一个进程",
    ("process", "accept"): "另一个进程连接",
    ("process", "get"): "另一个进程的元素（队列）",
    ("process", "put"): "通往另一个进程的队列空位",
    ("process", "receive"): "另一个进程的数据（管道）",
    ("process", "result"): "worker 进程的结果",
    ("process", "send"): "另一个进程接收数据（管道）",
    ("queue", ""): "队列中的元素",
    ("queue", "join"): "队列处理完",
    ("queue", "put"): "队列空位",
    ("ray", ""): " Ray 的结果",
    ("ray", "get"): " ray.get",
    ("ray", "wait"): " ray.wait",
    ("sleep", ""): "休眠结束",
    ("teardown", ""): "进程组关闭",
    ("terminal", ""): "终端",
    ("terminal", "read"): "终端的数据",
    ("terminal", "write"): "终端接收数据",
    ("thread", ""): "条件变量或事件",
    ("thread", "join"): "另一个线程结束",
}
"""What `jupyter_traindbg.model.waits.ENGLISH` has in English."""
