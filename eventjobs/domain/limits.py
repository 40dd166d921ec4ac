"""Every bound of the product: its name, its unit, and the relations between them that must hold.

Text is counted in characters, content in bytes of UTF-8, time in microseconds unless the name says otherwise.
"""

MICROSECONDS = 1_000_000
"""Microseconds in a second: the unit of every stored time and duration."""

DAY_SECONDS = 86_400

URL_DEFAULT = "http://127.0.0.1:8484"
"""Where a coordinator listens, and where it is looked for, unless somebody says otherwise."""

NAME_LENGTH_MAX = 128
"""Kind and queue, in ASCII characters."""
WORKER_LENGTH_MAX = 255
IDEMPOTENCY_KEY_LENGTH_MAX = 255
REQUEST_ID_LENGTH_MAX = 255
ACTOR_LENGTH_MAX = 255
REASON_LENGTH_MAX = 1_000

BODY_BYTES_MAX = 16 << 20
BODY_SECONDS_MAX = 60.0
"""How long a body may take to arrive once its head is there."""
IDLE_SECONDS_MAX = 620.0
"""How long a connection is kept on which no request is: nothing comes, or a head that does not come to its end. A bit
longer than the 600 seconds for which load balancers keep theirs, which must be the first to close."""
ANSWER_BYTES_MAX = 16 << 20
CONTENT_BYTES_MAX = 1 << 20
"""One payload or one result."""
ERROR_TEXT_BYTES_MAX = 64 << 10
"""One text of an error (type, message, traceback); a longer one is cut and says so."""
JSON_DEPTH_MAX = 128

BATCH_JOBS_MAX = 1_000
LEASE_JOBS_MAX = 1_000
LIST_LIMIT_MAX = 1_000
LIST_LIMIT_DEFAULT = 100
FILTER_NAMES_MAX = 256
"""Queues or kinds named in one lease request."""

FAULTS_REPORTED_MAX = 10_000
"""Faults listed in one refusal; how many more there are is said."""

STREAM_COMMENT_SECONDS = 15.0
"""How often an event stream carries a comment, so that both ends learn of a broken connection."""
STREAM_WRITE_SECONDS_MAX = 15.0
"""How long a reader of an event stream may leave a piece of it unread before it is cut off."""

BACKUP_PIECE_BYTES = 1 << 18
BACKUP_WRITE_SECONDS_MAX = 15.0
"""How long whoever takes a backup may leave a piece of it unread before it is cut off: meanwhile the store keeps every
page of that moment."""
BACKUP_BYTES_PER_SECOND_MIN = 1 << 18
"""The least rate at which a backup may be taken, over all of it: one that trickles would hold that moment for ever."""

QUEUE_DEFAULT = "default"
NO_KIND = "eventjobs/no-such-kind"
"""A worker that stops asks for this kind alone, to hear what an earlier request was granted: it wants no more jobs."""
PRIORITY_MIN, PRIORITY_MAX, PRIORITY_DEFAULT = -100, 100, 0
MAX_ATTEMPTS_MIN, MAX_ATTEMPTS_MAX, MAX_ATTEMPTS_DEFAULT = 1, 1_000, 5
LEASE_SECONDS_MIN, LEASE_SECONDS_MAX, LEASE_SECONDS_DEFAULT = 0.1, 86_400.0, 30.0
WAIT_SECONDS_MAX = 60.0
DELAY_SECONDS_MAX = 10 * 365.25 * DAY_SECONDS
RETRY_DELAY_SECONDS_MAX = 7 * DAY_SECONDS
"""Bound of a policy's base and max_delay, and of the delay a worker may ask for."""
TOKEN_MAX = POSITION_MAX = 2**63 - 1

LEASE_REQUEST_MEMORY_SECONDS = DAY_SECONDS
"""How long a lease's request id is remembered, from the time of the lease."""

assert CONTENT_BYTES_MAX < BODY_BYTES_MAX, "a body must be able to carry a content of full size"
assert CONTENT_BYTES_MAX < ANSWER_BYTES_MAX, "an answer must be able to carry a content of full size"
assert 3 * 6 * ERROR_TEXT_BYTES_MAX < ANSWER_BYTES_MAX, "a cut error, each byte escaped, must fit an answer"
assert LEASE_JOBS_MAX <= LIST_LIMIT_MAX
assert WAIT_SECONDS_MAX < LEASE_REQUEST_MEMORY_SECONDS, "a request must be remembered while it may still be repeated"
