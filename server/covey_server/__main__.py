"""`python -m covey_server` is `covey serve`."""

import sys

from covey_server.cli import serve

sys.exit(serve(sys.argv[1:]))
