"""Write the tables that all engines are asked about, as Parquet files.

python bench/peers/write_tables.py FOLDER TOKENIZER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import workloads

if __name__ == "__main__":
    workloads.write(Path(sys.argv[1]), Path(sys.argv[2]))
    print(*sorted(file.name for file in Path(sys.argv[1]).iterdir()))
