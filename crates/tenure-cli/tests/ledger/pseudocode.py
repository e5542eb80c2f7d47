# Pseudocode for reconstructing lock state
locks = {}  # node_id -> lock_info

for event in replay_ledger():
    if event.type == "lock_acquired":
        locks[event.node_id] = {
            "owner": event.owner,
            "acquired_at": event.timestamp,
            "expires_at": event.expires_at
        }
    elif event.type in ["lock_released", "lock_reaped"]:
        del locks[event.node_id]

# Filter out expired locks
now = current_time()
active_locks = {
    node_id: lock
    for node_id, lock in locks.items()
    if parse_time(lock["expires_at"]) > now
}
