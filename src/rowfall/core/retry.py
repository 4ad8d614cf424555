"""Limits and pauses of retries. Pure."""

from __future__ import annotations

# A network blip passes within seconds; the engine itself has retried each request for a while
# before it gives up, so three more rounds are enough to tell a blip from an outage.
MOST_TRANSIENT = 3
# A child that dies more often than this dies of something that trying again will not change.
MOST_DEATHS = 2
# "On a memory error blocks are lowered once": a second error means that --memory is too small.
MOST_LOWERED = 1
# Each decline throws away what the attempt had staged. Files of one load are alike: after the
# second the engine reads all of them.
MOST_DECLINED = 1
# So long the engine here asks a server that has stopped in the middle of an answer
# (chdb_child.connect: six times, 15 s each) before its statement fails.
HUNG_SECONDS = 90.0
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 10.0
# Who says Retry-After means a rate limit, most often of a minute.
LONGEST_ASKED = 60.0
# When every split so far failed on its data, the schema is wrong, not the files.
HOPELESS = 5


def pause(attempt: int) -> float:
    """Return the seconds before try number ``attempt`` (1 is the first retry): 0.5, 1, 2 ... 10."""
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (attempt - 1))


def waited(attempt: int) -> float:
    """Return the seconds that the pauses before so many retries take together."""
    return sum(map(pause, range(1, attempt + 1)))


def asked_pause(after: str | None) -> float:
    """Return the seconds of a header ``Retry-After``, 60 at most; 0 where it names none."""
    return min(float(after), LONGEST_ASKED) if after and after.strip().isdigit() else 0.0
