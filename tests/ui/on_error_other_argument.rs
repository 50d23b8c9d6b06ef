use redlock_runtime::redis_lock;

fn handle(_: u8) -> u64 {
    0
}

#[redis_lock(key = "order:{id}", on_error = handle)]
async fn pay(id: u64) -> u64 {
    id
}

fn main() {}
