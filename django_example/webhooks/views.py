"""The ingest URL."""

from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from django_example import policy
from django_example.webhooks.bodies import read_body
from django_example.webhooks.ingest import Receipt, accept, log_outcome
from django_example.webhooks.refusals import Refusal


@csrf_exempt
@require_POST
def receive(request: HttpRequest, tenant: str, source: str) -> JsonResponse:
    """Take one event: 202 for a new one, 200 for one that is here, an error otherwise."""
    outcome: Receipt | Refusal
    try:
        outcome = accept(tenant, source, request.headers, read_body(request, policy.BODY_LIMIT))
    except Refusal as refusal:
        outcome = refusal
    log_outcome(tenant, source, outcome)
    return JsonResponse(outcome.as_json(), status=outcome.status)
