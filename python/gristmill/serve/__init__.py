"""Parts of language-model servers: prompts and chats to ids, the ids of a step to text.

`managers.py` does that for lists of message objects, as mini-sglang's processes hand them around,
`wire.py` for flat messages between processes and `worker.py` is the process that answers them;
`asynchronous.py` is for servers on asyncio. `reference.py` does the managers' work with
transformers, to compare with.
"""
