"""The newest version."""
import openai_checks

openai_checks.declare("openai 3")
