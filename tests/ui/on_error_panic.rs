use redlock_runtime::redis_lock;

#[redis_lock(key = "order:{id}", on_error = panic!("not free"))]
async fn pay(id: u64) -> u64 {
    id
}

fn main() {}
