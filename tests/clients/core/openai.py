"""The version that most frameworks ask for."""
import openai_checks

openai_checks.declare("openai")
