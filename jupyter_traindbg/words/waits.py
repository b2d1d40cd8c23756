"""What a thread waits for, in Chinese; the English words are those of JSON, in `jupyter_traindbg.model.waits`."""

from __future__ import annotations

from collections.abc import Mapping

from ..model import Wait, WaitKind

__all__ = ["in_chinese"]


def in_chinese(wait: Wait) -> str:
    """What follows 等待, as ``str(wait)`` is what follows "waits for"."""
    return wait.told_by(CHINESE)


def _same(words: str) -> tuple[str, str]:
    return words, words


CHINESE: Mapping[tuple[WaitKind, str], tuple[str, str]] = {
    ("backward", ""): _same("反向传播（autograd 的线程；在 DDP 下还有其 all_reduce）"),
    ("child", ""): _same("子进程结束"),
    ("child", "program"): _same("子程序结束"),
    ("child", "spawned"): _same("其创建的进程"),
    ("collective", ""): _same("集合通信 {op}"),
    ("collective", "ddp_shapes"): _same("其他 rank 创建 DDP"),
    ("collective", "ddp_parameters"): _same("参数广播到所有 rank"),
    ("collective", "ddp_buffers"): _same("DDP 的 buffer 广播"),
    ("coroutine", ""): _same("{on}"),
    ("device", ""): ("设备 {on}", "设备"),
    ("file", ""): ("文件 {on}", "文件"),
    ("file", "list"): ("列出目录 {on}", "列出目录"),
    ("file", "look_up"): ("查找文件 {on}", "查找文件"),
    ("file", "open"): ("打开文件 {on}", "打开文件"),
    ("file", "read"): ("文件 {on} 的数据", "文件、管道或套接字的数据"),
    ("file", "sync"): ("磁盘（fsync {on}）", "磁盘（fsync）"),
    ("file", "write"): ("文件 {on} 接收数据", "文件、管道或套接字接收数据"),
    ("future", ""): _same(" future 的结果"),
    ("gil", ""): (" GIL（由 {on} 持有）", " GIL"),
    ("gpu", ""): _same(" GPU"),
    ("gpu", "synchronize"): _same(" GPU（CUDA 同步）"),
    ("idle", ""): _same("工作"),
    ("idle", "batches"): _same("要固定到内存的 batch"),
    ("idle", "connections"): _same("连接"),
    ("idle", "events"): _same("其事件循环中的事件"),
    ("idle", "indices"): _same("索引"),
    ("idle", "ranks"): _same("其 rank 结束"),
    ("idle", "sending"): _same("要发送的数据"),
    ("idle", "work"): _same("工作"),
    ("init", ""): _same("其他 rank 加入（{op}）"),
    ("loader", ""): _same(" DataLoader 的下一个 batch"),
    ("loader_end", ""): _same(" DataLoader worker 结束"),
    ("lock", ""): _same("锁"),
    ("lock", "file"): ("文件 {on} 的锁", "文件锁"),
    ("lock", "lock_file"): _same("锁文件"),
    ("lock", "shared"): _same("进程间共享的锁"),
    ("native", ""): _same("锁或其他线程（在 C 代码中）"),
    ("network", ""): _same("套接字"),
    ("network", "connect"): _same("建立连接"),
    ("network", "poll"): _same("套接字或管道"),
    ("network", "read"): _same("套接字的数据"),
    ("network", "write"): _same("套接字接收数据"),
    ("none", ""): _same(""),
    ("peer", ""): _same("点对点通信的对端（{op}）"),
    ("pipe", ""): _same("管道"),
    ("pipe", "read"): _same("管道的数据"),
    ("pipe", "write"): _same("管道接收数据"),
    ("process", ""): _same("另一个进程"),
    ("process", "accept"): _same("另一个进程连接"),
    ("process", "get"): _same("另一个进程的元素（队列）"),
    ("process", "put"): _same("通往另一个进程的队列空位"),
    ("process", "receive"): _same("另一个进程的数据（管道）"),
    ("process", "result"): _same("worker 进程的结果"),
    ("process", "send"): _same("另一个进程接收数据（管道）"),
    ("queue", ""): _same("队列中的元素"),
    ("queue", "join"): _same("队列处理完"),
    ("queue", "put"): _same("队列空位"),
    ("ray", ""): _same(" Ray 的结果"),
    ("ray", "get"): _same(" ray.get"),
    ("ray", "wait"): _same(" ray.wait"),
    ("sleep", ""): _same("休眠结束"),
    ("teardown", ""): _same("进程组关闭"),
    ("terminal", ""): _same("终端"),
    ("terminal", "read"): _same("终端的数据"),
    ("terminal", "write"): _same("终端接收数据"),
    ("thread", ""): _same("条件变量或事件"),
    ("thread", "join"): _same("另一个线程结束"),
}
"""By kind and op, as `jupyter_traindbg.model.waits.ENGLISH`: the words where ``on`` is known, and where it is not."""
