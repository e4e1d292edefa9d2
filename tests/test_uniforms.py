from scipy.stats import kstest

from while_pipeline.uniforms import Uniforms, derived_seed


def test_the_stream_is_splitmix64() -> None:
    # The first outputs for seed 1234567, as published with the reference implementation.
    stream = Uniforms(1234567)
    assert [stream.bits() for _ in range(5)] == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]


def test_first_draws_of_neighbouring_seeds_are_uniform() -> None:
    draws = [Uniforms(derived_seed(7, turn)).next() for turn in range(20_000)]
    assert min(draws) >= 0
    assert max(draws) < 1
    assert kstest(draws, "uniform").pvalue > 0.001


def test_parts_of_a_seed_are_63_bits_and_all_different() -> None:
    seeds = [derived_seed(seed, index) for seed in range(200) for index in range(50)]
    assert len(set(seeds)) == len(seeds)
    assert 0 <= min(seeds) <= max(seeds) < 2**63
