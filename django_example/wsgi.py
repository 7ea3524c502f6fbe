"""Entry point for WSGI servers."""

import os

from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "django_example.settings")

# The admin's own style sheets, which on a real site the server in front gives out.
application = StaticFilesHandler(get_wsgi_application())
