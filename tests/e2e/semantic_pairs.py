"""Pairs of similar questions with different meanings, and pairs with the same meaning, made from templates. Independent of the
product's own lists of words (src/services/cache/lexical_tables.h): neither was derived from the other."""
import itertools

SWAPS = {
    "negation": [
        ("Which foods are safe for dogs to eat?", "Which foods are not safe for dogs to eat?"),
        ("Should I take this medicine with milk?", "Should I never take this medicine with milk?"),
        ("Which cities have a metro?", "Which cities have no metro?"),
        ("Can I return the shoes after I wear them?", "Can't I return the shoes after I wear them?"),
        ("Name a planet with rings.", "Name a planet without rings."),
        ("Does the warranty cover water damage?", "Doesn't the warranty cover water damage?"),
        ("Which of these numbers is prime?", "Which of these numbers isn't prime?"),
        ("Is the museum open by default on Mondays?", "Is the museum closed by default on Mondays?"),
        ("Why did the test pass?", "Why didn't the test pass?"),
        ("Who agreed with the plan?", "Who disagreed with the plan?"),
        ("Is it legal to fish here?", "Is it illegal to fish here?"),
        ("What happens if the fuse is connected?", "What happens if the fuse is disconnected?"),
        ("List animals that can fly.", "List animals that cannot fly."),
        ("How do I enable the firewall?", "How do I disable the firewall?"),
        ("How do I lock the server?", "How do I unlock the server?"),
        ("Which drinks contain caffeine?", "Which drinks don't contain caffeine?"),
        ("Was the experiment successful?", "Was the experiment unsuccessful?"),
        ("What makes people happy?", "What makes people unhappy?"),
        ("Is this mushroom edible?", "Is this mushroom inedible?"),
        ("When does the alarm turn on?", "When does the alarm turn off?"),
    ],
    "direction": [
        (f"How long is the {how} from {a} to {b}?", f"How long is the {how} from {b} to {a}?")
        for how, (a, b) in itertools.product(("flight", "train ride", "drive"),
                                             (("Paris", "Rome"), ("Oslo", "Madrid"), ("Lima", "Quito"), ("Cairo", "Tunis")))
    ] + [
        (f"Convert {a} to {b}.", f"Convert {b} to {a}.")
        for a, b in (("miles", "kilometres"), ("USD", "EUR"), ("Celsius", "Fahrenheit"), ("PNG", "JPEG"), ("pounds", "kilograms"))
    ] + [
        (f"Is {a} {more} than {b}?", f"Is {b} {more} than {a}?")
        for more, (a, b) in itertools.product(("larger", "older", "faster", "cheaper"), (("Anna", "Ben"), ("iron", "lead"), ("Java", "Rust")))
    ] + [
        ("Did Germany attack Poland?", "Did Poland attack Germany?"),
        ("Translate this from English into French.", "Translate this from French into English."),
        ("Who beat whom, Brazil or Italy, when Brazil played Italy?", "Who beat whom, Italy or Brazil, when Italy played Brazil?"),
        ("Is the cat on the mat or under it?", "Is the cat under the mat or on it?"),
    ],
    "number": [
        (template.format(a), template.format(b))
        for template, (a, b) in itertools.product(
            ("What is {} percent of 80?", "Write {} sentences about rain.", "List {} rivers of Asia.", "How far is {} steps?", "How do I cook rice for {} people?", "What is {} plus 7?",
             "Which country won the cup {} times?", "Is {} a prime number?"),
            (("15", "50"), ("3", "30"), ("12", "21"), ("two", "three"), ("100", "1,000"), ("7", "17")))
    ],
    "name": [
        (template.format(a), template.format(b))
        for template, (a, b) in itertools.product(
            ("What is the capital of {}?", "How many people live in {}?", "What is the climate of {} like?", "Which rivers flow through {}?", "Who is the president of {}?"),
            (("France", "Spain"), ("Peru", "Chile"), ("Kenya", "Uganda"), ("Iran", "Iraq"), ("Slovenia", "Slovakia"), ("Niger", "Nigeria"),
             ("Austria", "Australia"), ("North Korea", "South Korea")))
    ] + [
        ("Who wrote Hamlet?", "Who wrote Macbeth?"), ("Who directed Alien?", "Who directed Aliens?"),
        ("What did Marie Curie discover?", "What did Pierre Curie discover?"),
        ("When was Charles Darwin born?", "When was Erasmus Darwin born?"),
    ],
    "date": [
        (template.format(a), template.format(b))
        for template, (a, b) in itertools.product(
            ("What happened on {}?", "What day of the week was {}?", "Who was born on {}?", "Which film came out on {}?"),
            (("1 May 1990", "1 May 1991"), ("2024-01-05", "2024-05-01"), ("3 June 2001", "3 July 2001"), ("12 March 1933", "21 March 1933"),
             ("Christmas Eve 1968", "Christmas Day 1968"), ("01/02/2003", "02/01/2003")))
    ] + [
        ("What is open on Monday?", "What is open on Tuesday?"), ("What did people eat before the war?", "What did people eat after the war?"),
        ("What happens at 9 am?", "What happens at 9 pm?"), ("Who ruled in the 15th century?", "Who ruled in the 16th century?"),
    ],
    "unit": [
        (template.format(a), template.format(b))
        for template, (a, b) in itertools.product(
            ("Is 5 {} a lot?", "Convert 12 {} for me.", "How heavy or long is 20 {}?", "Is a dose of 5 {} safe?"),
            (("mg", "g"), ("km", "miles"), ("litres", "gallons"), ("kB", "MB"), ("feet", "metres"), ("seconds", "minutes"), ("$", "€"), ("°C", "°F")))
    ],
}

BASES = [
    "What is the capital of France?", "How do I boil an egg?", "What is the speed of light?", "How can I learn to swim?", "What is photosynthesis?",
    "Who painted the Mona Lisa?", "Why is the sky blue?", "What are the planets of the solar system?", "How do I install Python 3.11 on Debian?",
    "When did the Titanic sink?", "What is the largest ocean?", "How do I reset my password?", "Where do penguins live?",
]


def same(base):
    """Other wordings of the same question."""
    bare = base.rstrip("?.")
    low = bare[0].lower() + bare[1:]
    return [base.lower(), bare, base.upper() if not any(c.isdigit() for c in base) else bare, f"Please, {low}?", f"Hi, {low}? Thanks!", f"Hello! {bare}??",
            f"Tell me please: {low}"]


PARAPHRASES = [(base, text) for base in BASES for text in same(base)] + [
    ("What is the capital of France?", "what's the capital of france"), ("What is the capital of France?", "Could you tell me the capital of France?"),
    ("How do I boil an egg?", "how to boil an egg"), ("How do I boil an egg?", "Can you tell me how to boil an egg?"),
    ("How can I learn to swim?", "How to learn to swim?"), ("How do I reset my password?", "How can I reset my password, please?"),
    ("What is the speed of light?", "I would like to know: what's the speed of light?"),
]
