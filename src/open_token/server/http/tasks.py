"""Routes of tasks."""

from fastapi import APIRouter

router = APIRouter()
