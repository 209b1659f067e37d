"""Time of a training step with 1 and with 8 steps per execution, on TensorFlow and on JAX, in turns.

python benchmarks/steps_per_execution.py            # five minutes on two cores
python benchmarks/steps_per_execution.py --quick    # a few steps of a small batch on TensorFlow
"""

from _report import of_process, options_of, write_table

COUNTS = (1, 8)


def milliseconds(batch, quick):
    """Milliseconds per step of the small glyph network for each number of steps per execution."""
    import fit

    images, labels = fit.images_and_labels(*((400, 40) if quick else (12_000, 870)))
    candidates = {count: fit.ours(images, labels, batch // 4, steps_per_execution=count) for count in COUNTS}
    seconds = fit.step_seconds(candidates, steps=8 if quick else 16, rounds=1 if quick else 5)
    return {f"steps_{count}_ms": 1e3 * seconds[count] for count in COUNTS}


def rows_of(quick):
    """A row for each backend and batch, from processes of their own: a process has one backend."""
    for backend in ["tensorflow"] if quick else ["tensorflow", "jax"]:
        for batch in [8] if quick else [8, 64]:
            found = of_process(__file__, batch, quick, KERAS_BACKEND=backend)
            yield {"backend": backend, "batch": batch, **found, "saved": 1 - found["steps_8_ms"] / found["steps_1_ms"]}


def main():
    """Measure both backends and write the table."""
    options = options_of(__doc__, "steps_per_execution.csv", case=milliseconds)
    write_table(options.output, rows_of(options.quick), "jax")


if __name__ == "__main__":
    main()
