/* What libtutti.so shows to the outside; everything else in it is hidden. */
#ifndef TUTTI_EXPORT_H_
#define TUTTI_EXPORT_H_

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

#endif /* TUTTI_EXPORT_H_ */
