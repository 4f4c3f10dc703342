"""The bridge's own API: HTTP on a Unix socket, for the commands of this machine.

- `place`: where the socket is, and how it is opened
- `calls`: from the API's thread to the loop that owns the core, and back
- `routes`: what can be asked (Starlette)
- `server`: the thread that serves it (uvicorn)
- `client`: the commands' side
"""
