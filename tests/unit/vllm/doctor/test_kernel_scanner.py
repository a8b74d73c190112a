from __future__ import annotations

import pytest

from proxy.vllm.doctor.evidence import KernelFindings
from proxy.vllm.doctor.kernel_scanner import KernelScanner

CGROUP = """\
[ 100.1] VLLM::EngineCor invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 100.2] memory: usage 16777216kB, limit 16777216kB, failcnt 8412
[ 100.3] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=c,mems_allowed=0,\
oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=VLLM::EngineCor,pid=123,uid=0
[ 100.4] Memory cgroup out of memory: Killed process 123 (VLLM::EngineCor) total-vm:98765432kB, \
anon-rss:16000000kB, file-rss:1000kB, shmem-rss:24kB, UID:0 pgtables:1kB oom_score_adj:0
"""
GLOBAL = """\
Dec  2 03:11:09 gpu-7 kernel: oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,\
mems_allowed=0,global_oom,task_memcg=/user.slice,task=python3,pid=77,uid=1000
Dec  2 03:11:09 gpu-7 kernel: Out of memory: Killed process 77 (python3) total-vm:9kB, \
anon-rss:8kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0
"""
OLD = """\
[1.0] Out of memory: Kill process 9 (python) score 912 or sacrifice child
[1.1] Killed process 9 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB
"""


def scanned(text: str, block: int = 1 << 20) -> KernelFindings:
    scanner = KernelScanner()
    raw = text.encode()
    for begin in range(0, len(raw), block):
        scanner.feed(raw[begin : begin + block], "dmesg", raw.count(b"\n", 0, begin + block))
    scanner.close("dmesg", raw.count(b"\n"))
    return scanner.findings()


@pytest.mark.parametrize("block", [7, 100, 1 << 20])
def test_a_kill_in_a_cgroup_is_one_kill_with_size_and_cgroup(block: int) -> None:
    (kill,) = scanned(CGROUP, block).host_kills
    assert (kill.process, kill.pid, kill.cgroup) == ("VLLM::EngineCor", 123, "/kubepods/pod1")
    assert kill.resident == (16000000 + 1000 + 24) * 1024
    assert (kill.evidence.file, kill.evidence.line) == ("dmesg", 4)


def test_a_prompt_that_quotes_the_kernel_is_no_kill() -> None:
    line = '{"path":"/v1/completions","prompt":"[1.1] Killed process 9 (python) total-vm:9kB"}'
    assert scanned(line + "\n") == KernelFindings()


def test_a_kill_for_want_of_the_hosts_memory_has_no_cgroup() -> None:
    (kill,) = scanned(GLOBAL).host_kills
    assert (kill.process, kill.pid, kill.resident, kill.cgroup) == ("python3", 77, 8192, None)


def test_older_kernels_say_it_otherwise() -> None:
    (kill,) = scanned(OLD).host_kills
    assert (kill.process, kill.evidence.line) == ("python", 2)


@pytest.mark.parametrize(
    ("line", "kills"),
    [
        ("    Reason:       OOMKilled", 1),
        ('  "OOMKilled": true,', 1),
        ('  "reason": "OOMKilled",', 1),
        ("vllm-0   0/1   OOMKilled   3   10m", 1),
        ('  "OOMKilled": false,', 0),
        ("Killed process accounting is off", 0),
    ],
)
def test_a_container_that_was_killed_for_its_memory_counts(line: str, kills: int) -> None:
    assert len(scanned(line + "\n").host_kills) == kills


def test_the_drivers_errors_come_with_their_meaning() -> None:
    xids = scanned(
        "[9.0] NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
        "[9.1] NVRM: Xid (0000:3b:00): 999, unheard of"
    ).xids
    assert [(xid.code, xid.evidence.line) for xid in xids] == [(79, 1), (999, 2)]
    assert "fallen off the bus" in (xids[0].meaning or "")
    assert xids[1].meaning is None


def test_the_next_file_counts_its_lines_from_1() -> None:
    scanner = KernelScanner()
    for name in ("a", "b"):
        scanner.feed(b"line\n", name, 1)
        scanner.feed(OLD.encode(), name, 3)
        scanner.close(name, 3)
    assert [(k.evidence.file, k.evidence.line) for k in scanner.findings().host_kills] == [
        ("a", 3),
        ("b", 3),
    ]


def test_a_log_of_another_kind_says_nothing() -> None:
    assert scanned("INFO engine ready\n" * 1000) == KernelFindings()
