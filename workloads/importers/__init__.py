"""Traces and prompt files of other tools, read as shapes: one module per format.

Reading order: row, losses, head, source, format, timeline, formats, chat_messages,
conversations, rounds, then any format.
"""
