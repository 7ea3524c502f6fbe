"""What the web server answers to."""

from django.contrib import admin
from django.urls import path

from django_example.watch import views as watch
from django_example.webhooks import views as webhooks

urlpatterns = [
    path("webhooks/<slug:tenant>/", webhooks.receive, {"source": "default"}, name="ingest"),
    path("webhooks/<slug:tenant>/<slug:source>/", webhooks.receive, name="ingest-source"),
    path("health", watch.health, name="health"),
    path("metrics", watch.metrics, name="metrics"),
    path("admin/", admin.site.urls),
]
