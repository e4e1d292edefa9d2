from benchmarks.stances import recognised

TEXTS = [f"I need my bill {word}" for word in ("please", "today", "now", "soon", "again", "here")]


def test_a_stance_with_words_of_its_own_is_recognised():
    texts = {
        "hurried": [f"{text}, quick, no time" for text in TEXTS],
        "unsure": [f"{text}, I think, if that is right" for text in TEXTS],
    }

    assert recognised(texts) == ["hurried", "unsure"]


def test_of_stances_that_say_the_same_at_most_one_is_recognised():
    assert len(recognised(dict.fromkeys(("hurried", "unsure", "retry"), TEXTS))) <= 1


def test_numbers_tell_nothing():
    texts = {"hurried": ["bill 17 please"] * 4, "unsure": ["bill 82 please"] * 4}

    assert len(recognised(texts)) <= 1


def test_a_stance_without_unseen_texts_is_not_recognised():
    assert recognised({"hurried": ["quick"], "unsure": []}) == []


def test_no_stance_gives_none():
    assert recognised({}) == []
