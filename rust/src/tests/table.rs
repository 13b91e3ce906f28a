// SPDX-License-Identifier: MIT
//! Interning: one entry per key, readers beside a writer.

use super::{F16, PROBE, dense, key_of};
use crate::table::{Table, by_token};
use std::sync::atomic::{AtomicBool, Ordering};

#[test]
fn a_key_has_one_token_and_keeps_it_while_the_table_grows() {
    let table: &Table = Box::leak(Box::new(Table::new()));
    let x = dense(F16, &[64, 1024]);
    let key = |n: i32| key_of(&PROBE, &[x, x], &[n], &[0; 3]).expect("valid");
    assert!(table.find(&key(0)).is_none());
    let first = table.intern(&PROBE, &key(0));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(table.find(&key(0)).expect("never lost").token, first.token);
                }
            });
        }
        for n in 1..1000 {
            assert!(table.find(&key(n)).is_none());
            table.intern(&PROBE, &key(n));
        }
        done.store(true, Ordering::Relaxed);
    });
    for n in 0..1000 {
        let spec = table.find(&key(n)).expect("interned");
        assert_eq!(table.intern(&PROBE, &key(n)).token, spec.token);
        assert_eq!(by_token(spec.token).expect("a token").key.words(), key(n).words());
    }
    assert!(by_token(-1).is_none() && by_token(i64::MAX).is_none());
}

#[test]
fn threads_that_intern_the_same_key_get_one_token() {
    let table: &Table = Box::leak(Box::new(Table::new()));
    let x = dense(F16, &[64, 1024]);
    let key = |n: i32| key_of(&PROBE, &[x, x], &[n], &[0; 3]).expect("valid");
    let tokens: Vec<Vec<i64>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..8).map(|_| scope.spawn(|| (0..100).map(|n| table.intern(&PROBE, &key(n)).token).collect())).collect();
        threads.into_iter().map(|t| t.join().expect("no panic")).collect()
    });
    assert!(tokens.iter().all(|t| *t == tokens[0]));
}
