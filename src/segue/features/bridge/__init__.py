"""The bridge: turns the command lines an agent prints into actions, and tells it the results.

Down the layers: serve → routes | webhooks → session → conversation → execute → subagent → launch → agent.
"""
