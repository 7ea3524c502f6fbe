"""Logs as one JSON object per line: ``at``, ``level``, ``scope``, ``event`` and fields.

Lines of libraries come out in the same form as those of the example.
"""

from typing import Any

import structlog
from structlog.types import EventDict, Processor, WrappedLogger


def rename_fields(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Give the fields the names that the log's readers know."""
    event["at"] = event.pop("timestamp")
    event["scope"] = event.pop("logger", "")
    return event


SHARED: list[Processor] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_logger_name,
    structlog.stdlib.add_log_level,
    structlog.stdlib.PositionalArgumentsFormatter(),
    structlog.stdlib.ExtraAdder(),
    structlog.processors.TimeStamper(fmt="iso", utc=True),
    structlog.processors.format_exc_info,
    structlog.processors.UnicodeDecoder(),
    rename_fields,
]


def logging_config() -> dict[str, Any]:
    """Return the value of Django's ``LOGGING``, and make structlog log through it."""
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *SHARED,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )
    formatter = {
        "()": structlog.stdlib.ProcessorFormatter,
        "processors": [
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.JSONRenderer(),
        ],
        "foreign_pre_chain": SHARED,
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"json": formatter},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "json"}},
        "root": {"handlers": ["stderr"], "level": "INFO"},
        # One line for each request it makes, which says nothing that ours do not.
        "loggers": {"httpx2": {"level": "WARNING"}},
    }
