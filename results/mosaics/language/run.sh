#!/bin/sh
# The real data of the three kinds of evaluation, through one model of recipes/5m-cpu.yaml:
#   sh results/mosaics/language/run.sh mosaic DATA       and attention
# DATA holds xquad.en.json (github.com/google-deepmind/xquad, commit 7d30520c71), banking77_train.csv and
# banking77_test.csv (PolyAI-LDN/task-specific-datasets, 57ec275d80), goemotions_train.tsv, goemotions_test.tsv and
# goemotions_labels.txt (google-research/goemotions, by way of monologg/GoEmotions-pytorch, b75f9d3a8b).
# Text and tokenizer are those of results/language/run.sh. A model of this size is near chance on all of it: this shows that the code reads
# real data, and at what level; what memories do is measured in results/mosaics/knowledge.
set -eu
layer=$1
data=$2
run=runs/mosaics/$layer
kept=results/mosaics/language/$layer
text=runs/language/books/validation
fourfold train recipes/5m-cpu.yaml "model.layer=$layer" model.fields.sliding_window=null \
    model.fields.mosaic_window=64 model.fields.mosaic_delay=16 \
    training.memory=window training.batch_size=4 training.sequence_length=1024 training.tokens=3_000_000 --out "$run"
mkdir -p "$kept"
cp "$run/recipe.yaml" "$run/log.csv" "$run/validation.csv" "$run/result.json" "$kept"
ask() {
    name=$1
    shift
    test -e "$kept/$name.json" || fourfold evaluate "$run/model" "$@" --out "$kept/$name.json"
}
ask knowledge --suite knowledge --data "$data/xquad.en.json" "text=$text" examples=100
ask new-knowledge --suite new-knowledge --data "$data/xquad.en.json" length=1024 examples=50
ask needles --suite new-knowledge --data "$text" kind=needles length=1024 examples=50
ask banking77 --suite icl --data "$data/banking77_train.csv" "tests=$data/banking77_test.csv" \
    classes=8 "shots=[1, 2, 4, 8]" examples=50
ask goemotions --suite icl --data "$data/goemotions_train.tsv" "tests=$data/goemotions_test.tsv" \
    "label_names=$data/goemotions_labels.txt" classes=8 "shots=[1, 2, 4, 8]" examples=50
