#!/usr/bin/env python3
"""Which part of each zone fio's logs of its requests say is done.

    fio_cut.py durable|all ZONE_BYTES LOG...

Each log (--write_iolog) is that of a job with one request in flight. Fio notes a request when it sends it, so all but the last one are done. `durable` is
what stands before a sync that is done, `all` is every write that is done. Prints a line for each zone: where it begins, and how many bytes of it.
"""

import sys


def done(log, which):
    """Offset and length of each write."""
    with open(log, encoding="ascii") as lines:
        requests = [line.split() for line in lines]
    # A time may stand before the name of the file.
    requests = [words[-3:] for words in requests if len(words) >= 4 and words[-3] in ("write", "sync")]
    requests = requests[:-1]
    if which == "durable":
        syncs = [at for at, words in enumerate(requests) if words[0] == "sync"]
        requests = requests[: syncs[-1] if syncs else 0]
    return [(int(offset), int(length)) for kind, offset, length in requests if kind == "write"]


def main(which, zone, *logs):
    zone = int(zone)
    ends = {}
    for log in logs:
        for offset, length in done(log, which):
            start = offset - offset % zone
            ends[start] = max(ends.get(start, 0), offset + length - start)
    for start, length in sorted(ends.items()):
        print(start, length)


if __name__ == "__main__":
    main(*sys.argv[1:])
