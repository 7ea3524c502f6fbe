"""How webhooks are taken and delivered here, read once from the environment."""

from django_example import options

MAX_ATTEMPTS = options.MAX_ATTEMPTS.read()
BACKOFF_BASE = options.BACKOFF_BASE.read()
BACKOFF_MAXIMUM = options.BACKOFF_MAXIMUM.read()
BACKOFF_JITTER = options.BACKOFF_JITTER.read()
LEASE_TTL = options.LEASE_TTL.read()
LEASE_HEARTBEAT = options.LEASE_HEARTBEAT.read()
HTTP_DEADLINE = options.HTTP_DEADLINE.read()
ATTEMPT_TIMEOUT = options.ATTEMPT_TIMEOUT.read()
RETRY_AFTER_MAXIMUM = options.RETRY_AFTER_MAXIMUM.read()
ALLOWED_NETWORKS = options.ALLOWED_NETWORKS.read()
BODY_LIMIT = options.BODY_LIMIT.read()
SIGNATURE_TOLERANCE = options.SIGNATURE_TOLERANCE.read()
