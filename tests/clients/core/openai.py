"""The version that most frameworks require."""
import openai_checks

openai_checks.declare("openai")
