"""Shells that own time: the same small loop twice, on threads and on asyncio."""
