#!/bin/sh
# Trains and measures one model of recipes/5m-cpu.yaml, and keeps what came out beside this file:
#   sh results/language/run.sh atpm [field=value ...]     and gated_deltanet, attention, lstm
#   name=atpm_start_0.02 sh results/language/run.sh atpm model.fields.initializer_range=0.02
# before that, once:
#   python results/language/books.py runs/language/books
#   fourfold tokenizer train --data runs/language/books/train --vocab-size 4096 --out runs/language/tokenizer
# and when all are through:
#   python results/language/report.py results/language
#   fourfold plot-run results/language/atpm results/language/gated_deltanet results/language/attention \
#       results/language/lstm --out results/language/trace.png
# Stopped, it goes on where it was when called again.
set -eu
layer=$1
shift
run=runs/language/${name:=$layer}
kept=results/language/$name
text=runs/language/books/validation
fourfold train recipes/5m-cpu.yaml "model.layer=$layer" "$@" --out "$run"
mkdir -p "$kept"
cp "$run/recipe.yaml" "$run/log.csv" "$run/validation.csv" "$run/result.json" "$kept"
fourfold evaluate "$run/model" --data "$text" --out "$kept/evaluate.json"
python results/language/samples.py "$run/model" "$text" "$kept/samples.json"
python results/language/session.py "$run/model" "$text" "$kept/session.json"
