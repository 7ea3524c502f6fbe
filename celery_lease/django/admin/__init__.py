from celery_lease.django.admin.jobs import JobAdmin

__all__ = ["JobAdmin"]
