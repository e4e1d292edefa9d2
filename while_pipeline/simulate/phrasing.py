"""What any customer may say, whatever the stance: greetings, requests, reasons, digressions, farewells.

Sentences only; how they are put together is in `script`, and how a tool is asked for in `goals`. Words that
tools and rules are named by do not belong here: an agent would read them as a request.
"""

from itertools import product

from while_pipeline.policy_document import RuleKind
from while_pipeline.tools import ToolKind

CHANNELS = ("chat", "chat", "chat", "email", "sms", "voice")
"""Where the customer writes; each as often as it stands here."""

GREETINGS: dict[str, tuple[str, ...]] = {
    "chat": (
        "Hi.", "Hello.", "Good morning.", "Hey there.", "Good evening.", "Hi there!", "Good afternoon.",
        "Hello, hope you are well.", "Hey.", "Hi, anyone there?", "Hello again.", "",
    ),
    "email": (
        "Dear support team,", "Dear Sir or Madam,", "Hello,", "Good day,", "Dear all,", "Hi team,",
        "To whom it may concern,", "Dear customer care,",
    ),
    "sms": ("", "", "Hi.", "Hey.", "Hello."),
    "voice": (
        "Uh, hi.", "Hello? Yes, hi.", "Hi, good morning.", "Um, hello.", "Yeah, hi there.",
        "Hello, can you hear me?", "Hi, so.", "Good afternoon, um.",
    ),
}  # fmt: skip

WISHES = (
    "I would like to {goal}{tail}.",
    "I'd like to {goal}{tail}, please.",
    "I want to {goal}{tail}.",
    "I need to {goal}{tail}.",
    "I have to {goal}{tail}.",
    "I am trying to {goal}{tail}.",
    "I was hoping to {goal}{tail}.",
    "I was wondering how I can {goal}{tail}.",
    "Is it possible to {goal}{tail}?",
    "How do I {goal}{tail}?",
    "Am I in the right place to {goal}{tail}?",
    "I am getting in touch because I want to {goal}{tail}.",
    "It would be great to {goal}{tail}.",
    "What I want is to {goal}{tail}.",
    "Please help me {goal}{tail}.",
)
ABOUT = (
    "It is about {topic}.",
    "I have a question about {topic}.",
    "I am thinking about {topic}.",
    "I wanted to ask about {topic}.",
)
"""For whoever has not decided yet."""
DECISIONS = (
    "Good, then I have decided.",
    "All right, that helps.",
    "I see, then I know what I want.",
    "Okay then.",
)
REQUESTS = (
    "Can you {goal} for me{tail}?",
    "Could you please {goal}{tail}?",
    "Please {goal}{tail}.",
    "Would you {goal}{tail}, please?",
    "Could you {goal} for me{tail}?",
    "Would you be so kind as to {goal}{tail}?",
    "I need you to {goal}{tail}.",
    "I would be grateful if you could {goal}{tail}.",
    "I am writing to ask you to {goal}{tail}.",
    "Is there a chance you could {goal}{tail}?",
    "Any chance you can {goal}{tail}?",
    "Kindly {goal}{tail}.",
    "I would ask you to {goal}{tail}.",
    "It would help me a lot if you could {goal}{tail}.",
)
TERSE_WISHES = (
    "Need to {goal}{tail}.",
    "Want to {goal}{tail}.",
    "How do I {goal}{tail}?",
    "Hoping to {goal}{tail}.",
)
TERSE_REQUESTS = (
    "Please {goal}{tail}.",
    "Can you {goal}{tail}?",
    "{goal}{tail} please.",
    "Pls {goal}{tail}.",
    "Could you {goal}{tail}?",
)
FRAMES = {
    (False, True): WISHES,
    (False, False): REQUESTS,
    (True, True): TERSE_WISHES,
    (True, False): TERSE_REQUESTS,
}
"""By whether the channel is terse and whether the phrase follows "I want to" or "Can you"."""
TAILS = (
    "", "", "", "", " today", " this week", " before the weekend", " as soon as possible", " this morning",
    " right away", " while I am here", " before I forget again", " sometime today", " by tomorrow", " now",
)  # fmt: skip
LONG_GOAL = 6
"""Words from which a goal takes no tail: "until it is resumed before the weekend" is nobody's English."""
SECOND_ASKS = (
    "After that I also want to {goal}.",
    "And then I need to {goal} as well.",
    "Also, I would like to {goal}.",
    "While we are at it, I want to {goal} too.",
    "And there is a second thing: I have to {goal}.",
    "Once that is done, I would like to {goal}.",
)

_ANY_REASONS = (
    "I am finally going through my papers.",
    "I have been putting this off for weeks.",
    "I could not find it anywhere on the website.",
    "I am leaving on holiday soon.",
    "We have just moved house.",
    "A friend told me to ask you directly.",
    "I got a letter about it and I am a bit lost.",
    "I am helping my mother with this.",
    "I am trying to get on top of things this month.",
    "I have been on hold for a while, so I am trying it this way.",
    "My brother said that you are quick at this.",
    "It came back to me when I made my shopping list.",
    "I would rather have it settled than think about it all week.",
    "The kids are asleep, so I finally have a minute.",
    "It has been on my mind since yesterday.",
    "I do not want to wait in the queue at the shop.",
    "I am new here and still learning my way around.",
    "My sister usually does these things for me.",
    "",
    "",
    "",
)
_KIND_REASONS: dict[ToolKind, tuple[str, ...]] = {
    ToolKind.READ: (
        "I want to be sure I have not missed anything.",
        "Something looked odd to me the other day.",
        "My tax adviser wants to know.",
        "I need it for my records.",
        "I like to keep an eye on these things.",
    ),
    ToolKind.SEARCH: (
        "I have been looking for ages without luck.",
        "I would like to compare before I choose.",
        "I have no idea where to start.",
        "I am curious what there is.",
    ),
    ToolKind.CREATE: (
        "It would suit me well.",
        "I have talked it over at home and we want it.",
        "I should have done it long ago.",
        "It has to be arranged before I travel.",
    ),
    ToolKind.UPDATE: (
        "My situation is not what it was.",
        "The way it is now does not suit me any more.",
        "I am going abroad for a while.",
        "I want it to be sorted before next month.",
        "Things are different at home since the summer.",
    ),
    ToolKind.CANCEL: (
        "I have no use for it any more.",
        "My plans fell through.",
        "I found something that fits me better.",
        "I acted too fast, sorry about that.",
    ),
    ToolKind.PAY: (
        "I want it off my list.",
        "I got a reminder and I hate those.",
        "I do not want to be late with it.",
        "My salary came in today.",
    ),
}
REASONS = {kind: (*_ANY_REASONS, *_KIND_REASONS.get(kind, ())) for kind in ToolKind}
"""Why the customer asks, by what the first tool does; some give no reason."""

_CIRCUMSTANCES = (
    "My {who} asked me to take care of this {when}.",
    "My {who} brought it up {when}.",
    "It came up {when} when I was talking to my {who}.",
    "I am {where} with my {who} right now.",
    "I am {where}, so please bear with me.",
    "I have been meaning to ask since {since}, but my {who} kept me busy.",
    "It has bothered me since {since}, and my {who} as well.",
    "I noticed it {when} while I was {where}.",
)
_FILLINGS: dict[str, tuple[str, ...]] = {
    "who": (
        "partner", "wife", "husband", "mother", "father", "sister", "brother", "daughter", "son", "neighbour",
        "flatmate", "aunt", "uncle", "cousin", "boss", "grandmother",
    ),
    "when": (
        "yesterday", "last night", "this morning", "over breakfast", "at lunch", "on Sunday", "before work",
        "the other day", "after dinner", "at the weekend",
    ),
    "where": (
        "on the train", "at the kitchen table", "in the garden", "in a cafe", "on the bus", "in the office",
        "at my desk", "on the sofa", "in the library", "at the station", "in a car park", "at the dentist's",
        "on a park bench", "on the balcony", "in a waiting room", "at the seaside",
    ),
    "since": (
        "Monday", "last week", "the weekend", "Easter", "the start of the month", "my birthday", "Thursday",
        "the summer", "New Year", "the other evening",
    ),
}  # fmt: skip


def _filled(frame: str) -> list[str]:
    names = [name for name in _FILLINGS if f"{{{name}}}" in frame]
    return [
        frame.format_map(dict(zip(names, words, strict=True)))
        for words in product(*(_FILLINGS[name] for name in names))
    ]


CIRCUMSTANCES = tuple(said for frame in _CIRCUMSTANCES for said in _filled(frame))
"""What customers say of themselves, every frame with every filling."""
CIRCUMSTANCE_SHARE = 0.5
"""Of the customers who give details; those who give none always say something of themselves instead."""

DETAILS = (
    "My {slots}.",
    "To make it easier: {slots}.",
    "Here are the details: {slots}.",
    "The {slots}.",
    "In case you need it: {slots}.",
    "You will need this: {slots}.",
    "What I have here: {slots}.",
)
SAID_OUTRIGHT = 4
"""Values told in the first message at most; the rest is told when asked for, as nobody dictates a form."""

RULE_OPENINGS = {
    RuleKind.NEVER: ("I want you to {trigger}.", "Please {trigger}.", "Could you {trigger}?"),
    RuleKind.HANDOFF: (
        "The thing is, {trigger}.",
        "You should know that {trigger}.",
        "It is like this: {trigger}.",
    ),
    RuleKind.INFORM: (
        "Is it one of your rules that {trigger}?",
        "Is it part of your policy that {trigger}?",
        "Somebody told me that {trigger}, is that one of your rules?",
    ),
}
"""Who comes with nothing else, by kind of rule; the others are put in play by what is done, not by words."""
RULE_LINES = {
    RuleKind.NEVER: (
        "One more thing, I want you to {trigger}.",
        "On top of that, please {trigger}.",
        "And I expect you to {trigger}.",
        "Oh, and could you {trigger}?",
    ),
    RuleKind.HANDOFF: (
        "You should also know that {trigger}.",
        "One more thing: {trigger}.",
        "To be clear, {trigger}.",
        "And there is this: {trigger}.",
    ),
    RuleKind.INFORM: (
        "Also, is it one of your rules that {trigger}?",
        "One more question: is it part of your policy that {trigger}?",
        "And somebody told me that {trigger}, is that one of your rules?",
    ),
}
"""After the answer to a request."""
GENERAL_ASKS = (
    "What can you help me with?",
    "Which requests do you take here?",
    "Could you tell me what this chat is for?",
    "So, what can you help people with?",
    "Before I start, which requests are you there for?",
)

DIGRESSIONS = (
    "Do you think it will rain on Sunday?",
    "Who is going to win the football cup this year?",
    "Do you know a good recipe for pumpkin soup?",
    "What is the tallest mountain in Africa?",
    "Can you recommend a detective novel for the beach?",
    "How long do potatoes have to boil?",
    "Which film should I watch with my nephew tonight?",
    "Is it true that octopuses have three hearts?",
    "What would you name a ginger kitten?",
    "Can you write a short poem about autumn leaves?",
    "Who painted the ceiling of the Sistine Chapel?",
    "How do I get red wine stains out of a carpet?",
    "What is the score of the tennis final?",
    "Do you prefer mountains or beaches?",
    "Can you solve this riddle about the fox and the chicken?",
    "How far away is the moon?",
    "What do hedgehogs eat in winter?",
    "Which herbs go well with grilled salmon?",
)
"""Off topic for any agent that does not deal in them."""
DIGRESSION_LEADS = (
    "By the way:",
    "Something else entirely:",
    "You seem to be clever:",
    "Just out of curiosity:",
    "",
)
DIGRESSION_SHARE = 0.05
"""Of the customers who came with a request, those who drift off in the end: seen in every day, and cheap."""

FAREWELLS: dict[str, tuple[str, ...]] = {
    "chat": (
        "Thanks.", "Thank you!", "Many thanks in advance.", "Cheers.", "Thanks a lot for your help.",
        "Looking forward to hearing from you.", "Thank you so much.", "That would be lovely.", "", "", "", "",
    ),
    "email": (
        "Thank you in advance.", "Many thanks for your help.", "I look forward to your reply.", "",
        "Thank you for your time.", "Please tell me if something is missing.", "",
    ),
    "sms": ("", "", "", "Thx.", "Thanks."),
    "voice": (
        "Yeah, that's it.", "Um, thanks.", "That would be great, thanks.", "", "", "So, yeah.", "Thank you.",
    ),
}  # fmt: skip
IDENTITIES = (
    "I am {full_name}, born {date_of_birth}.",
    "My name is {full_name} and I was born on {date_of_birth}.",
    "{full_name}, date of birth {date_of_birth}.",
)
CORRECTIONS = (
    "Sorry, I misread it: {slots}.",
    "Oh, my mistake, I was on the wrong page: {slots}.",
    "Hm, let me look again. I had it wrong: {slots}.",
)
SIGN_OFFS = ("Kind regards,", "Best regards,", "Yours sincerely,", "Best wishes,", "Regards,", "Thanks,")
FILLERS = ("Um, ", "So, ", "Well, ", "Uh, ", "Right, so, ", "Yeah, so, ", "")
