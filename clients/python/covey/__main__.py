"""`python -m covey`: the `covey` command, for an environment whose scripts are not on the path."""

from covey.cli import main

raise SystemExit(main())
