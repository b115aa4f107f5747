"""Routes of schedules."""

from fastapi import APIRouter

router = APIRouter()
