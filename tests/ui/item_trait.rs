use redlock_runtime::redis_lock;

#[redis_lock(key = "order")]
trait Pay {
    fn pay(&self);
}

fn main() {}
