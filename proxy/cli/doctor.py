"""`sluice doctor`: was it an OOM, in which phase, transient or steady, and which knob to turn."""

from __future__ import annotations

import click


@click.command()
@click.argument("sources", nargs=-1, required=True, metavar="FILE|URL...")
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a page.")
@click.option(
    "--follow",
    "watch",
    is_flag=True,
    help="Go on reading what is appended, through rotation, and report each OOM as it comes.",
)
@click.pass_context
def doctor(ctx: click.Context, sources: tuple[str, ...], as_json: bool, watch: bool) -> None:
    """Find out what a vLLM server ran out of, and what to change.

    Takes any mix of vLLM logs (also of journald, docker, kubectl; also gzipped), memory curves of
    nvidia-smi, files of `sluice record`, metrics pages or URLs of an engine or of Sluice, and
    kernel logs (dmesg). What a file is is told by its content. `-` is standard input.

    \b
    Exit code: 0 no out-of-memory found, 3 found, 4 not enough evidence,
    2 nothing could be read. One unreadable file among others is a line on
    standard error, and does not change the code.

    \b
    Examples:
      sluice doctor vllm.log
      sluice doctor vllm.log gpu.csv http://gpu-host:8000/metrics
      journalctl -k | sluice doctor - vllm.log.1.gz
      kubectl logs --previous vllm-0 | sluice doctor --json - | jq .advice
      sluice doctor --follow vllm.log
    """
    from proxy.cli import doctor_answer  # noqa: PLC0415 - for its help nobody waits for this

    do = doctor_answer.watch if watch else doctor_answer.answer
    ctx.exit(do(tuple(dict.fromkeys(sources)), as_json=as_json))
