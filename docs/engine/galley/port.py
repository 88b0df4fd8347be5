"""Say in one line when a port is taken, before anything is built: python -m galley.port 8000."""

import socket
import sys


def main() -> int:
    """Return 1 where the port is in use."""
    port = int(sys.argv[1])
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            advice = f"Stop what uses it, or choose another: make serve PORT={port + 1}"
            print(f"Port {port} is in use. {advice}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
