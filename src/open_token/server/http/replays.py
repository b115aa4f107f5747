"""Routes of replays."""

from fastapi import APIRouter

router = APIRouter()
