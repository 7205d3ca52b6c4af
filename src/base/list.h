// SPDX-License-Identifier: Apache-2.0
/* base/list.h - a doubly linked list of objects that have their place in it inside them.
 *
 *     struct job {
 *             struct list_node at;
 *     };
 *     struct list jobs = { 0 };               an empty one
 *     list_append(&jobs, &j->at);
 *     LIST_EACH (struct job, j, &jobs, at)    the body may remove J, and nothing else
 *             ...
 *
 * The list owns nothing. A node is in one list at most; one that is in none is zeroed, or was removed. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/own.h"

struct list_node {
	struct list_node *prev, *next;
};

struct list {
	struct list_node *first, *last;
	size_t n;
};

/* BEFORE NULL: as the last one. */
static inline void list_insert(struct list *l, struct list_node *n, struct list_node *before)
{
	n->next = before;
	n->prev = before ? before->prev : l->last;
	*(n->prev ? &n->prev->next : &l->first) = n;
	*(n->next ? &n->next->prev : &l->last) = n;
	l->n++;
}

static inline void list_append(struct list *l, struct list_node *n)
{
	list_insert(l, n, NULL);
}

static inline void list_prepend(struct list *l, struct list_node *n)
{
	list_insert(l, n, l->first);
}

static inline void list_remove(struct list *l, struct list_node *n)
{
	*(n->prev ? &n->prev->next : &l->first) = n->next;
	*(n->next ? &n->next->prev : &l->last) = n->prev;
	n->prev = n->next = NULL;
	l->n--;
}

/* The first one, which is in it no longer; NULL: it is empty. */
static inline struct list_node *list_take(struct list *l)
{
	struct list_node *n = l->first;

	if (n)
		list_remove(l, n);
	return n;
}

/* The object of a node; NULL of none. */
#define LIST_ENTRY(node, type, member) \
	({ \
		const struct list_node *entry_ = (node); \
		entry_ ? container_of((uintptr_t)entry_, type, member) : NULL; \
	})
#define LIST_FIRST(list, type, member) LIST_ENTRY((list)->first, type, member)
#define LIST_LAST(list, type, member) LIST_ENTRY((list)->last, type, member)
#define LIST_NEXT(object, member) LIST_ENTRY((object)->member.next, __typeof__(*(object)), member)
#define LIST_TAKE(list, type, member) LIST_ENTRY(list_take(list), type, member)
#define LIST_EACH(type, it, list, member) \
	for (type *it = LIST_FIRST(list, type, member), *next_##it = it ? LIST_NEXT(it, member) : NULL; it; \
	     it = next_##it, next_##it = it ? LIST_NEXT(it, member) : NULL)
