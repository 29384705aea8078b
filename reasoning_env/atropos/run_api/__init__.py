"""Delivery of scored groups to Atropos' run-api.

`client` makes one request, `session` keeps the environment registered and knows whether groups may be sent, `queue`
keeps groups until run-api has confirmed them. A group is dropped, and counted, only if run-api refuses it for good or
JSON cannot hold it.

What run-api can and cannot tell (atroposlib 0.4.0), and what follows from it:

- Groups have no ids. Whether a request arrived whose connection broke cannot be asked. It is sent again, and counted
  as `repeated`.
- Environments have no identity. Numbers count registrations from 0, and begin again after a restart and after
  `/reset_data`; status 500 says that a number is not given, any other answer does not say to whom. The name in a
  registration's reply counts entries of one name, those that have left included. What an entry cannot share with
  another is its weight: a session adds a random part of up to 0.025 % to it, and `/status-env` tells each entry's share
  of all weights. Two numbers with the same share to the last digit are one environment's. Shares of 1 % and less are
  all told as 1 %, so in such a crowd an entry that may be a session's own stays.
- A session therefore registers again whenever run-api may have been restarted since its last answer, compares the old
  number with the new one, and disconnects one of the two only when both are its own. A restart or a reset that lies
  entirely between two requests, after which another environment has the number, shows only in a step that went back.
- An entry that stays behind takes a share of the work, and with a `min_batch_allocation` it stops all batches.
- A group that arrives before a trainer has registered breaks run-api: `/register` then has no effect, for good. Only
  `/reset_data` or a restart mend that, which would cost other environments their groups. So `/info` is asked right
  before each request; a reset between the two cannot be excluded, and the log then says what helps.
- After `/reset_data`, a trainer that asks for a batch opens the registration of environments although it is not
  registered itself; it then clears all entries when it does. `/info` tells a batch size of -1 until then.
- A group larger than the trainer's batch blocks run-api's queue: none is sent.
- A list of groups is taken whole or, with status 422, not at all.
"""

from .client import RunApiClient, RunApiFault
from .queue import DeliveryQueue
from .session import Registration, RunApiSession, State

__all__ = ["DeliveryQueue", "Registration", "RunApiClient", "RunApiFault", "RunApiSession", "State"]
