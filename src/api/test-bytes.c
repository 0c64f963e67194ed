// SPDX-License-Identifier: Apache-2.0
/* Uploads, downloads, archives, listings and changes, from request to answer, against the fakes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "api/fakes.h"
#include "api/request.h"
#include "base/limits.h"
#include "base/mem.h"

#define SESSION "/v1/sessions/sbx_0123456789ab"

static uv_loop_t loop;
static struct api *api;

static const char *const as_a[] = { "X-Api-Key: key-a", NULL };

static int start(void **state)
{
	struct api_config config = { .loop = &loop, .write_max = MIB, .upload_max = 2 * MIB };
	struct err err;

	fake_reset();
	uv_loop_init(&loop);
	return api_open(&config, NULL, &api, &err);
}

static void on_closed(void *data)
{
	*(bool *)data = true;
}

static void stop_api(void)
{
	bool closed = false;

	if (!api)
		return;
	api_close(api, on_closed, &closed);
	api = NULL;
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(closed);
}

static int stop(void **state)
{
	stop_api();
	buf_fini(&fake.uploaded);
	return uv_loop_close(&loop);
}

static void ask(struct http_exchange *x, const char *method, const char *target, const char *body)
{
	fake_request(x, method, target, as_a, str_of(body));
	api_handle(api, x);
	if (x->wants_body)
		fake_body(x);
}

static void assert_answer(struct http_exchange *x, int status, const char *want)
{
	assert_int_equal(x->status, status);
	assert_true(x->ended);
	assert_string_equal(x->answer.data, want);
	assert_null(api->requests);
	fake_exchange_fini(x);
}

/* ---- Up ---- */

static void an_upload_is_passed_on_piece_by_piece(void **state)
{
	struct http_exchange x;

	ask(&x, "PUT", SESSION "/files?path=a%20b", "hello");
	assert_string_equal(fake.path, "a b");
	assert_int_equal(fake.upload_size, 5);
	/* Nothing is asked of the client before its turn. */
	assert_false(x.streams || x.wants_body);
	fake.upload.wanted(fake.data);
	assert_true(x.streams);
	assert_int_equal(x.flow.max, 2 * MIB);
	fake_piece(&x, STR("hel"));
	assert_false(x.paused);
	fake.upload_full = true;
	fake_piece(&x, STR("lo"));
	assert_true(x.paused);
	fake.upload.wanted(fake.data);
	assert_false(x.paused || fake.upload_ended);
	fake_body_end(&x, 0);
	assert_true(fake.upload_ended);
	assert_false(x.begun);
	assert_string_equal(fake.uploaded.data, "hello");
	fake.upload.done(fake.data, 5, NULL);
	assert_answer(&x, 200, "{\"path\":\"a b\",\"size_bytes\":5,\"status\":\"success\"}");
}

static void a_length_over_the_limit_is_told_before_anything(void **state)
{
	struct http_exchange x;

	fake_request(&x, "PUT", "/v1/sessions/none/files?path=a", as_a, STR("x"));
	x.head.content_length = 2 * MIB + 1;
	api_handle(api, &x);
	assert_answer(&x, 413,
		      "{\"detail\":\"Upload is larger than the 2 MB limit.\","
		      "\"code\":\"upload_too_large\"}");
	assert_int_equal(fake.lookups, 0);
	/* Exactly as long as it may be. */
	fake_request(&x, "PUT", SESSION "/files?path=a", as_a, STR("x"));
	x.head.content_length = 2 * MIB;
	api_handle(api, &x);
	assert_int_equal(fake.upload_size, 2 * MIB);
	fake.upload.done(fake.data, 2 * MIB, NULL);
	fake_exchange_fini(&x);
}

static void chunks_are_counted_while_they_come(void **state)
{
	struct http_exchange x;

	fake_request(&x, "PUT", SESSION "/files?path=a", as_a, STR("x"));
	x.head.content_length = 0;
	x.head.chunked = true;
	api_handle(api, &x);
	assert_true(fake.upload_size == RUNTIME_SIZE_UNKNOWN);
	fake.upload.wanted(fake.data);
	fake_piece(&x, STR("abc"));
	fake_body_end(&x, 413);
	assert_true(fake.file_detached);
	assert_false(fake.upload_ended);
	assert_answer(&x, 413,
		      "{\"detail\":\"Upload is larger than the 2 MB limit.\","
		      "\"code\":\"upload_too_large\"}");
}

static void a_body_without_length_is_empty(void **state)
{
	struct http_exchange x;

	ask(&x, "PUT", SESSION "/files?path=a", NULL);
	assert_int_equal(fake.upload_size, 0);
	fake.upload.wanted(fake.data);
	fake_body_end(&x, 0);
	fake.upload.done(fake.data, 0, NULL);
	assert_answer(&x, 200, "{\"path\":\"a\",\"size_bytes\":0,\"status\":\"success\"}");
}

static void a_refusal_before_or_amid_the_body_answers_at_once(void **state)
{
	const struct err folder = { EISDIR, "is_folder", "'a' is a folder." };
	struct http_exchange x;

	for (unsigned i = 0; i < 2; i++) {
		fake.a.rate.micro_tokens = 0;
		ask(&x, "PUT", SESSION "/files?path=a", "hello");
		if (i) {
			fake.upload.wanted(fake.data);
			fake_piece(&x, STR("he"));
		}
		fake.upload.done(fake.data, 0, &folder);
		assert_answer(&x, 400, "{\"detail\":\"'a' is a folder.\",\"code\":\"is_folder\"}");
	}
}

static void a_client_that_hangs_up_leaves_the_old_file(void **state)
{
	struct http_exchange x;

	ask(&x, "PUT", SESSION "/files?path=a", "hello");
	fake.upload.wanted(fake.data);
	fake_piece(&x, STR("he"));
	x.flow.gone(x.flow.data);
	assert_true(fake.file_detached);
	assert_false(fake.upload_ended || x.begun);
	assert_null(api->requests);
	fake_exchange_fini(&x);
}

static void any_type_of_body_is_bytes(void **state)
{
	static const char *const types[] = { "Content-Type: application/json",
					     "Content-Type: text/html", "Content-Type:" };

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		const char *const headers[] = { "X-API-Key: key-a", types[i], NULL };
		struct http_exchange x;
		fake_request(&x, "PUT", SESSION "/files?path=a", headers, STR("{"));
		api_handle(api, &x);
		fake.upload.wanted(fake.data);
		fake_piece(&x, STR("{"));
		fake_body_end(&x, 0);
		fake.upload.done(fake.data, 1, NULL);
		assert_int_equal(x.status, 200);
		fake_exchange_fini(&x);
	}
}

/* ---- Down ---- */

static void a_download_has_its_length_and_name(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", SESSION "/files?path=out/Bericht+%C3%BC%22%0D.txt", NULL);
	assert_string_equal(fake.path, "out/Bericht \xc3\xbc\"\r.txt");
	assert_false(x.begun);
	fake.download.begun(fake.data, 5);
	assert_int_equal(x.status, 200);
	assert_int_equal(x.length, 5);
	assert_string_equal(x.type, "application/octet-stream");
	assert_true(fake_has_field(&x, "Content-Disposition: attachment; "
				       "filename*=UTF-8''Bericht%20%C3%BC%22%0D.txt\n"));
	assert_true(fake.download.bytes(fake.data, STR("hel")));
	assert_true(fake.download.bytes(fake.data, STR("lo")));
	assert_false(x.ended);
	fake.download.done(fake.data, NULL);
	assert_answer(&x, 200, "hello");
}

static void a_slow_client_pauses_the_worker(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", SESSION "/files?path=a", NULL);
	x.queue_room.max = 4;
	fake.download.begun(fake.data, 10);
	assert_true(fake.download.bytes(fake.data, STR("abcd")));
	assert_false(fake.download.bytes(fake.data, STR("ef")));
	assert_int_equal(fake.resumed, 0);
	fake_drain(&x);
	assert_int_equal(fake.resumed, 1);
	assert_true(fake.download.bytes(fake.data, STR("ghij")));
	fake.download.done(fake.data, NULL);
	assert_answer(&x, 200, "abcdefghij");
}

static void the_last_piece_may_fill_the_queue(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", SESSION "/files?path=a", NULL);
	x.queue_room.max = 4;
	fake.download.begun(fake.data, 5);
	assert_false(fake.download.bytes(fake.data, STR("abcde")));
	fake.download.done(fake.data, NULL);
	assert_answer(&x, 200, "abcde");
	assert_int_equal(fake.resumed, 0);
}

static void a_download_that_breaks_never_ends(void **state)
{
	const struct err broken = { EIO, "internal", "" };
	struct http_exchange x;

	for (unsigned i = 0; i < 2; i++) {
		ask(&x, "GET", i ? SESSION "/archive" : SESSION "/files?path=a", NULL);
		fake.download.begun(fake.data, 10);
		fake.download.bytes(fake.data, STR("abcd"));
		fake.download.done(fake.data, &broken);
		assert_true(x.aborted);
		assert_false(x.ended);
		assert_null(api->requests);
		fake_exchange_fini(&x);
	}
}

static void a_missing_file_is_404(void **state)
{
	const struct err missing = { ENOENT, "file_not_found", "File 'a' does not exist." };
	struct http_exchange x;

	ask(&x, "GET", SESSION "/files?path=a", NULL);
	fake.download.done(fake.data, &missing);
	assert_answer(&x, 404,
		      "{\"detail\":\"File 'a' does not exist.\",\"code\":\"file_not_found\"}");
}

static void a_client_that_hangs_up_ends_the_reading(void **state)
{
	struct http_exchange x;

	/* While bytes come; and while they wait. */
	for (unsigned i = 0; i < 2; i++) {
		fake.file_detached = false;
		ask(&x, "GET", SESSION "/files?path=a", NULL);
		fake.download.begun(fake.data, 10);
		if (i) {
			x.queue_room.max = 1;
			assert_false(fake.download.bytes(fake.data, STR("ab")));
			x.gone = true;
			fake_drain(&x);
		} else {
			x.gone = true;
			assert_false(fake.download.bytes(fake.data, STR("ab")));
		}
		assert_true(fake.file_detached && x.aborted);
		assert_null(api->requests);
		fake_exchange_fini(&x);
	}
}

static void an_archive_is_chunked(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", SESSION "/archive", NULL);
	assert_true(fake.archives);
	assert_string_equal(fake.path, ".");
	fake.download.begun(fake.data, 0);
	assert_int_equal(x.length, -1);
	assert_string_equal(x.type, "application/gzip");
	fake.download.bytes(fake.data, STR("gz"));
	fake.download.done(fake.data, NULL);
	assert_answer(&x, 200, "gz");
}

static void a_closing_server_gives_transfers_up(void **state)
{
	struct http_exchange up, down, waiting;

	ask(&up, "PUT", SESSION "/files?path=a", "hello");
	fake.upload.wanted(fake.data);
	fake_piece(&up, STR("he"));
	ask(&down, "GET", SESSION "/files?path=a", NULL);
	fake.download.begun(fake.data, 10);
	ask(&waiting, "GET", SESSION "/list", NULL);
	stop_api();
	assert_true(fake.file_detached);
	assert_true(up.aborted && down.aborted && waiting.aborted);
	fake_exchange_fini(&up);
	fake_exchange_fini(&down);
	fake_exchange_fini(&waiting);
}

/* ---- The tree ---- */

static void a_listing_names_everything_from_the_workspace(void **state)
{
	static const struct runtime_entry entries[] = {
		{ STR("a.txt"), STR(""), S_IFREG | 0644, 12, 1700000000 },
		{ STR("d"), STR(""), S_IFDIR | 0755, 4096, 1 },
		{ STR("l"), STR("../x"), S_IFLNK | 0777, 4, -1 },
		{ STR("p"), STR(""), S_IFIFO | 0600, 0, 0 },
		{ STR("r\xff\\\xc3\xbc"), STR(""), S_IFREG | 04755, UINT64_MAX, 0 },
	};
	struct http_exchange x;

	ask(&x, "GET", SESSION "/list?path=./out//sub/&depth=3&after=6162", NULL);
	assert_string_equal(fake.path, "./out//sub/");
	assert_string_equal(fake.second, "ab");
	assert_int_equal(fake.depth, 3);
	fake.list_done(fake.data, entries, ARRAY_SIZE(entries), true, NULL);
	assert_answer(
		&x, 200,
		"{\"path\":\"./out//sub/\",\"entries\":["
		"{\"path\":\"out/sub/a.txt\",\"type\":\"file\",\"size_bytes\":12,\"mode\":420,"
		"\"mtime\":1700000000},"
		"{\"path\":\"out/sub/d\",\"type\":\"folder\",\"size_bytes\":4096,\"mode\":493,"
		"\"mtime\":1},"
		"{\"path\":\"out/sub/l\",\"type\":\"link\",\"size_bytes\":4,\"mode\":511,"
		"\"mtime\":-1,\"target\":\"../x\"},"
		"{\"path\":\"out/sub/p\",\"type\":\"other\",\"size_bytes\":0,\"mode\":384,"
		"\"mtime\":0},"
		"{\"path\":\"out/sub/r\\\\xff\\\\x5c\xc3\xbc\",\"type\":\"file\","
		"\"size_bytes\":9223372036854775807,\"mode\":2541,\"mtime\":0,\"raw\":true}],"
		"\"next\":\"72ff5cc3bc\"}");
}

static void an_empty_folder_is_an_empty_list(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", SESSION "/list", NULL);
	assert_string_equal(fake.path, ".");
	assert_string_equal(fake.second, "");
	assert_int_equal(fake.depth, 1);
	fake.list_done(fake.data, NULL, 0, false, NULL);
	assert_answer(&x, 200, "{\"path\":\".\",\"entries\":[],\"next\":null}");
}

static void changes_answer_what_they_did(void **state)
{
	static const struct {
		const char *method, *target, *body, *path, *second;
		bool flag;
		uint64_t number;
		const char *answer;
	} table[] = {
		{ "DELETE", SESSION "/files?path=a", NULL, "a", "", false, 1,
		  "{\"path\":\"a\",\"deleted\":1}" },
		{ "DELETE", SESSION "/files?path=d&recursive=true", NULL, "d", "", true, 0,
		  "{\"path\":\"d\",\"deleted\":0}" },
		{ "DELETE", SESSION "/files?path=d&recursive=0", NULL, "d", "", false, 7,
		  "{\"path\":\"d\",\"deleted\":7}" },
		{ "POST", SESSION "/move", "{\"from\":\"a\",\"to\":\"b/c\"}", "a", "b/c", false, 0,
		  "{\"from\":\"a\",\"to\":\"b/c\"}" },
		{ "POST", SESSION "/move", "{\"from\":\"a\",\"to\":\"b\",\"replace\":true}", "a",
		  "b", true, 0, "{\"from\":\"a\",\"to\":\"b\"}" },
		{ "POST", SESSION "/mkdir", "{\"path\":\"x/y\"}", "x/y", "", false, 1,
		  "{\"path\":\"x/y\",\"created\":true}" },
		{ "POST", SESSION "/mkdir", "{\"path\":\"x/y\"}", "x/y", "", false, 0,
		  "{\"path\":\"x/y\",\"created\":false}" },
	};
	const struct err exists = { EEXIST, "exists", "'b' already exists." };
	struct http_exchange x;

	for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
		fake.a.rate.micro_tokens = 0;
		fake.second[0] = '\0';
		ask(&x, table[i].method, table[i].target, table[i].body);
		assert_string_equal(fake.path, table[i].path);
		assert_string_equal(fake.second, table[i].second);
		assert_int_equal(fake.flag, table[i].flag);
		fake.change_done(fake.data, table[i].number, NULL);
		assert_answer(&x, 200, table[i].answer);
		ask(&x, table[i].method, table[i].target, table[i].body);
		fake.change_done(fake.data, 0, &exists);
		assert_answer(&x, 409, "{\"detail\":\"'b' already exists.\",\"code\":\"exists\"}");
	}
}

static void routes_of_bytes_are_described_as_such(void **state)
{
	struct http_exchange x;

	ask(&x, "GET", "/openapi.json", NULL);
	json_t *all = fake_json(&x), *put = NULL, *get = NULL, *archive = NULL;
	assert_int_equal(json_unpack(all, "{s:{s:{s:o,s:o},s:{s:o}}}", "paths",
				     "/v1/sessions/{session_id}/files", "put", &put, "get", &get,
				     "/v1/sessions/{session_id}/archive", "get", &archive),
			 0);
	const char *format = NULL;
	assert_int_equal(json_unpack(put, "{s:{s:{s:{s:{s:s}}}}}", "requestBody", "content",
				     "application/octet-stream", "schema", "format", &format),
			 0);
	assert_string_equal(format, "binary");
	assert_null(json_object_get(json_object_get(put, "responses"), "415"));
	assert_non_null(json_object_get(json_object_get(put, "responses"), "413"));
	assert_int_equal(json_unpack(get, "{s:{s:{s:{s:{s:{s:s}}}}}}", "responses", "200",
				     "content", "application/octet-stream", "schema", "format",
				     &format),
			 0);
	assert_int_equal(json_unpack(archive, "{s:{s:{s:{s:{s:{s:s}}}}}}", "responses", "200",
				     "content", "application/gzip", "schema", "format", &format),
			 0);
	json_decref(all);
	fake_exchange_fini(&x);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_upload_is_passed_on_piece_by_piece),
		TEST(a_length_over_the_limit_is_told_before_anything),
		TEST(chunks_are_counted_while_they_come),
		TEST(a_body_without_length_is_empty),
		TEST(a_refusal_before_or_amid_the_body_answers_at_once),
		TEST(a_client_that_hangs_up_leaves_the_old_file),
		TEST(any_type_of_body_is_bytes),
		TEST(a_download_has_its_length_and_name),
		TEST(a_slow_client_pauses_the_worker),
		TEST(the_last_piece_may_fill_the_queue),
		TEST(a_download_that_breaks_never_ends),
		TEST(a_missing_file_is_404),
		TEST(a_client_that_hangs_up_ends_the_reading),
		TEST(an_archive_is_chunked),
		TEST(a_closing_server_gives_transfers_up),
		TEST(a_listing_names_everything_from_the_workspace),
		TEST(an_empty_folder_is_an_empty_list),
		TEST(changes_answer_what_they_did),
		TEST(routes_of_bytes_are_described_as_such),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
