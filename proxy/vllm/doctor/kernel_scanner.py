"""The kernel's log: whom the OOM killer took, and what the NVIDIA driver reported.

`dmesg`, `journalctl -k`, /var/log/kern.log, or a whole journal; also what Kubernetes and Docker say
of a container that was killed for its memory. Lines as the kernel writes them (mm/oom_kill.c):

    python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, ...
    oom-kill:constraint=CONSTRAINT_MEMCG,...,task_memcg=/kubepods/pod1,task=python3,pid=123,uid=0
    Memory cgroup out of memory: Killed process 123 (python3) total-vm:9kB, anon-rss:8kB, ...
    NVRM: Xid (PCI:0000:3b:00): 31, pid=123, name=python3, Ch 00000008, ...
"""

from __future__ import annotations

import re
from dataclasses import replace

from proxy.vllm.doctor.client_words import without_clients_words
from proxy.vllm.doctor.evidence import EvidenceLine, HostKill, KernelFindings, Xid
from proxy.vllm.doctor.needle import Needle
from proxy.vllm.endless_numbers import without_endless_numbers

# What a block must hold to be read line by line. Whoever the kernel chose (`oom-kill:`) is told to
# be killed within the next lines.
_KILL = b"Killed"
_XID_NEEDLE = Needle(b"NVRM: Xid", rare=1)
_LINE_NEEDLES = (_KILL, _XID_NEEDLE.word, b"oom-kill:")
_KILLED = re.compile(
    r"(?P<cgroup>Memory cgroup )?(?:[Oo]ut of memory.*?: )?Killed process (?P<pid>\d+)"
    r"[ ,]*\((?P<process>[^)]*)\)(?P<sizes>.*)"
)
_OOM_KILL = re.compile(r"oom-kill:constraint=(?P<constraint>\w+)(?P<rest>.*)")
_FIELD = re.compile(r"\b(oom_memcg|task_memcg|task|pid)=([^,\s]+)")
_RESIDENT = re.compile(r"(?:anon|file|shmem)-rss:(\d+)kB")
_CONTAINER = re.compile(
    r"""(?:[Rr]eason"?\s*[:=]\s*"?|\s)OOMKilled\b(?!"?\s*[:=])|OOMKilled"?\s*[:=]\s*true"""
)
_XID = re.compile(r"NVRM: Xid \([^)]*\): (\d+)")
_LONGEST_CARRY = 1 << 16
_MOST = 100  # of each; a machine that kills all night says no more by saying more

# From NVIDIA's catalogue of Xid errors.
XID_MEANINGS = {
    13: "an exception in the graphics engine: an illegal access by the program, or bad hardware",
    31: "a memory page fault on the GPU: the program touched an address that is not its own",
    43: "the GPU stopped the program's work after an error of the program",
    45: "cleaning up after a program that was killed or failed",
    48: "an ECC error of two bits: bad memory on the card",
    61: "the card's microcontroller halted",
    62: "the card's microcontroller halted",
    63: "a row of the card's memory is to be replaced",
    64: "a row of the card's memory could not be replaced",
    69: "an exception in the graphics engine's class",
    74: "an NVLink error",
    79: "the GPU has fallen off the bus: power, heat or the slot",
    92: "many ECC errors of one bit",
    94: "an ECC error that hit one program only",
    95: "an ECC error that may have hit every program on the card",
    109: "a program's context switch timed out",
    119: "the card's GSP firmware does not answer",
    120: "the card's GSP firmware failed",
    140: "an ECC error that could not be corrected",
}


class KernelScanner:
    """Takes blocks cut anywhere, of several files one behind the other."""

    def __init__(self) -> None:
        self._kills: list[HostKill] = []
        self._xids: list[Xid] = []
        self._carry = b""

    def feed(self, block: bytes, file: str, lines: int) -> None:
        """`lines` of the file have ended with this block: whoever reads it too has counted them."""
        first, end = block.find(b"\n") + 1, block.rfind(b"\n") + 1
        if not end:
            self._carry = (self._carry + block)[-_LONGEST_CARRY:]
            return
        wanted = _KILL in block or _XID_NEEDLE.is_in(block)
        if wanted or any(needle in self._carry + block[:first] for needle in _LINE_NEEDLES):
            self._scan(self._carry + block[:end], file, lines)
        self._carry = block[end:][-_LONGEST_CARRY:]

    def close(self, file: str, lines: int) -> None:
        """`lines` had an end; one without may be left."""
        self._scan(self._carry, file, lines + 1)
        self._carry = b""

    def findings(self) -> KernelFindings:
        return KernelFindings(tuple(self._kills), tuple(self._xids))

    def _scan(self, text: bytes, file: str, last: int) -> None:
        """`last` is the number of the last whole line."""
        all_lines = text.removesuffix(b"\n").split(b"\n")
        for number, line in enumerate(all_lines, start=last - len(all_lines) + 1):
            if any(needle in line for needle in _LINE_NEEDLES):
                said = without_endless_numbers(line).decode(errors="replace").strip()
                self._read(EvidenceLine(file, number, said), without_clients_words(said))

    def _read(self, line: EvidenceLine, own: str) -> None:
        if match := _XID.search(own):
            code = int(match[1])
            if len(self._xids) < _MOST:
                self._xids.append(Xid(line, code, XID_MEANINGS.get(code)))
        elif match := _KILLED.search(own):
            self._killed(line, match)
        elif match := _OOM_KILL.search(own):
            self._chosen(line, match)
        elif _CONTAINER.search(own):
            self._add(HostKill(line, process="container"))

    def _killed(self, line: EvidenceLine, match: re.Match[str]) -> None:
        resident = sum(map(int, _RESIDENT.findall(match["sizes"]))) * 1024 or None
        kill = HostKill(line, match["process"], int(match["pid"]), resident)
        chosen = self._kills[-1] if self._kills else None
        if chosen and chosen.pid == kill.pid and chosen.resident is None:
            self._kills[-1] = replace(kill, cgroup=chosen.cgroup)
        else:
            self._add(replace(kill, cgroup="a cgroup" if match["cgroup"] else None))

    def _chosen(self, line: EvidenceLine, match: re.Match[str]) -> None:
        """The same kill is told again, with its size, on the next line or so."""
        fields = dict(_FIELD.findall(match["rest"]))
        limited = match["constraint"] == "CONSTRAINT_MEMCG"
        cgroup = fields.get("oom_memcg") or fields.get("task_memcg") or "a cgroup"
        pid = int(fields["pid"]) if fields.get("pid", "").isdecimal() else None
        self._add(HostKill(line, fields.get("task"), pid, cgroup=cgroup if limited else None))

    def _add(self, kill: HostKill) -> None:
        if len(self._kills) < _MOST:
            self._kills.append(kill)
