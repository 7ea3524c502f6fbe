"""Django settings of the example; everything that varies comes from ``options``."""

import dj_database_url

from django_example import options
from django_example.watch.logs import logging_config

SECRET_KEY = options.SECRET_KEY.read()
ALLOWED_HOSTS = options.ALLOWED_HOSTS.read()
DEBUG = False

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "celery_lease.django",
    "django_example.webhooks",
    "django_example.watch",
    "django_example.demo",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]
ROOT_URLCONF = "django_example.urls"
WSGI_APPLICATION = "django_example.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"

DATABASES = {"default": dj_database_url.parse(options.DATABASE_URL.read())}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    # A deferred transaction that reads before it writes fails at once when
    # another writer was there in between, whatever the time-out; and without
    # WAL every reader would block the writer.
    DATABASES["default"]["OPTIONS"] = {
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL",
    }
else:
    DATABASES["default"] |= {"CONN_MAX_AGE": 60, "CONN_HEALTH_CHECKS": True}

CELERY_BROKER_URL = options.BROKER_URL.read()
# A message is a hint that a worker's sweeper repeats, so a sender of events does
# not wait for a broker that is down.
CELERY_TASK_PUBLISH_RETRY = False
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "socket_connect_timeout": 2,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_LEASE_STORE = options.LEASE_STORE.read()
CELERY_WORKER_CONCURRENCY = options.WORKER_COUNT.read()
# A delivery may take many seconds, so a worker takes no more messages than it can begin.
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
# A worker that is killed takes the messages with it that it has not begun, and some
# brokers keep those for an hour. A second message for the same job does no harm.
CELERY_LEASE_REPUBLISH_AFTER = options.REPUBLISH_AFTER.read()
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
# A delivery's result is read from its job; a second copy would only age.
CELERY_TASK_IGNORE_RESULT = True

LOGGING = logging_config()
LOGGING_CONFIG = "logging.config.dictConfig"
