"""Counts the words of a long song, over two shuffles, and checks what comes out. Of examples/spark.yaml."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

verses = int(sys.argv[1])
spark = SparkSession.builder.appName("words").getOrCreate()
spark.sparkContext.setLogLevel("WARN")

lines = spark.sparkContext.parallelize(range(verses)).map(lambda n: f"{n % 100} green bottles hanging on the wall")
counts = lines.flatMap(str.split).map(lambda word: (word, 1)).reduceByKey(lambda a, b: a + b)
found = dict(counts.sortBy(lambda pair: -pair[1]).collect())

for word in ("green", "bottles", "wall"):
    print(f"{word}: {found[word]}")
if found["green"] != verses or sum(found.values()) != 7 * verses:
    raise SystemExit(f"{sum(found.values())} words in {verses} verses: that is wrong")
print(f"{len(found)} words in {verses} verses")
