"""Pages for operators and their machines."""

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from celery_lease.errors import StoreUnavailable
from django_example.watch.health import check_health
from django_example.watch.metrics import exposition


@require_safe
def health(_: HttpRequest) -> JsonResponse:
    """Tell whether work is being done: 200 or 503."""
    found = check_health()
    return JsonResponse(found.as_json(), status=found.http_status)


@require_safe
def metrics(_: HttpRequest) -> HttpResponse:
    """Give the metrics, or 503 while the database cannot be read."""
    try:
        return HttpResponse(exposition(), content_type=CONTENT_TYPE_LATEST)
    except (StoreUnavailable, OperationalError, InterfaceError):
        return HttpResponse(status=503)
